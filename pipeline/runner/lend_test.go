package runner

import (
	"slices"
	"testing"

	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline/wire"
)

// lentConfig is a model of three buckets.
var lentConfig = model.Config{Vocab: 18000, Context: 8, DModel: 64, NHead: 2, NLayer: 1}

// While somebody reads the root no other sum begins, so no frame has two of them mixed; what is summed of it can be
// read, and the rest is waited for.
func TestTheRootStaysWhileItIsRead(t *testing.T) {
	layout := model.NewLayout(lentConfig)
	r := newRoot(layout, 8)
	request := wire.GradRequest{Step: 3, Hi: 8, Bucket: 1}
	unread := func([]float32) error { t.Error("it is read"); return nil }
	if later, err := r.read(request, unread); later != nil || err == nil {
		t.Errorf("a root that is not here: %v", err)
	}
	grad := r.begin(3)
	r.reveal(2)
	later, err := r.read(request, unread)
	if later == nil || err != nil {
		t.Fatalf("a bucket that is not summed yet: %v", err)
	}
	r.reveal(1)
	<-later
	read := false
	if err := r.await(request, func(bucket []float32) error {
		if read = true; r.reading.TryLock() {
			t.Error("another sum could begin while the root is read")
		}
		if lo, hi := layout.Bucket(1); len(bucket) != hi-lo || &bucket[0] != &grad[lo] {
			t.Error("another bucket is read")
		}
		return r.await(request, func([]float32) error { return nil }) // and others may read it, too
	}); err != nil || !read {
		t.Errorf("reading the root: %v", err)
	}
	request.Bucket = 0
	if later, err = r.read(request, unread); later == nil || err != nil {
		t.Fatalf("a bucket that is not summed yet: %v", err)
	}
	r.drop()
	<-later
	if err := r.await(request, unread); err == nil {
		t.Error("a sum that has failed can be read")
	}
}

// While somebody reads a copy of the state the next one is not taken.
func TestACopyStaysWhileItIsRead(t *testing.T) {
	layout := model.NewLayout(lentConfig)
	s := snapshot{step: -1, layout: layout}
	engine := enginetest.NewPlain(lentConfig, 1, 1)
	if _, err := s.take(0, layout, engine, model.Plain{}); err != nil {
		t.Fatal(err)
	}
	read := false
	if err := s.bucket(0, 2, func(state) error {
		if read = true; s.mu.TryLock() {
			t.Error("the next copy could be taken while this one is read")
		}
		return nil
	}); err != nil || !read {
		t.Errorf("reading the copy: %v", err)
	}
}

// numbered is an engine whose gradients tell slot, bucket and how often they were read.
type numbered struct {
	model.Engine
	reads int
}

func (n *numbered) ReadGrad(slot, bucket int, dst []float32) error {
	n.reads++
	for i := range dst {
		dst[i] = float32(100*slot + 10*bucket + n.reads)
	}
	return nil
}

// Buckets of contributions are read once for all their chunks, into the same memory ever again, and
// that memory is not filled anew while somebody reads it.
func TestPulledBucketsShareTheirMemory(t *testing.T) {
	engine := &numbered{}
	w := &worker{layout: model.NewLayout(lentConfig), grads: newGrads(2), engine: engine}
	w.ctx = t.Context()
	for slot := range 2 {
		w.grads.set(slot, wire.GradRequest{Step: 1, Lo: slot, Hi: slot + 1})
	}
	rooms := map[*float32]bool{}
	read := func(lane, bucket int) {
		t.Helper()
		for _, offset := range []int{0, 5} {
			if err := w.awaitGrad(wire.GradRequest{Step: 1, Lo: lane, Hi: lane + 1, Bucket: bucket, Offset: offset}, func(b []float32) error {
				if !w.engineMu.TryLock() {
					t.Error("nobody can compute while it is sent")
				}
				w.engineMu.Unlock()
				for _, k := range w.grads.kept {
					if &k.room[0] == &b[0] && k.using.TryLock() {
						t.Error("the bucket could be replaced while it is read")
					}
				}
				rooms[&b[0]] = true
				if lo, hi := w.layout.Bucket(bucket); len(b) != hi-lo || slices.ContainsFunc(b, func(x float32) bool { return x != float32(100*lane+10*bucket+engine.reads) }) {
					t.Errorf("bucket %d of lane %d has %d elements that begin with %v", bucket, lane, len(b), b[0])
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for bucket := w.layout.Buckets() - 1; bucket >= 0; bucket-- { // the last one is the shortest
		read(0, bucket)
		read(1, bucket)
	}
	if want := 2 * w.layout.Buckets(); engine.reads != want || len(rooms) != 2 {
		t.Errorf("%d reads into %d places, want %d into 2", engine.reads, len(rooms), want)
	}
}

// A worker serves no contribution that it has let go.
func TestAContributionThatWentIsNotRead(t *testing.T) {
	w := &worker{layout: model.NewLayout(lentConfig), grads: newGrads(1), engine: &numbered{}}
	r := wire.GradRequest{Step: 1, Hi: 1}
	w.grads.set(0, r)
	slot, whole, _ := w.grads.find(r)
	w.grads.set(0, wire.GradRequest{})
	if err := w.readGrad(r, slot, whole, func([]float32) error { t.Error("it is read"); return nil }); err != errNoGrad {
		t.Errorf("reading it: %v", err)
	}
}
