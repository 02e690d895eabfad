package dirstore_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/model"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

func TestRoundTripOverBucketBorders(t *testing.T) {
	s := newState(wide(), 5)
	if n := s.layout.Buckets(); n != 3 {
		t.Fatalf("%d buckets, the test wants 3", n)
	}
	s.params[0], s.m[0], s.v[0] = float32(math.NaN()), float32(math.Inf(-1)), math.SmallestNonzeroFloat32
	store := owned(t, vfs.OS, filepath.Join(t.TempDir(), "run", "checkpoints"))
	must(t, s.save(store, 100))
	r, passed, err := store.Newest(nil)
	must(t, err)
	defer r.Close()
	got, err := loaded(r)
	must(t, err)
	if got.digest() != s.digest() || passed != nil {
		t.Fatalf("digest %v, saved %v, passed over %v", got.digest(), s.digest(), passed)
	}
	want := s.fields(100)
	want.Format, want.Step, want.Model, want.Files = checkpoints.FormatNewest, 100, wide(), r.Manifest().Files
	if g := r.Manifest(); g.Job != want.Job || g.Data != want.Data || g.RecordDigest != want.RecordDigest || g.Model != want.Model || g.Step != 100 {
		t.Fatalf("manifest %+v, want %+v", g, want)
	}
	if string(r.Tokenizer()) != tokenizer {
		t.Fatalf("tokenizer %q", r.Tokenizer())
	}
}

// readTensors is a reader of safetensors that shares no code with the writer.
func readTensors(t *testing.T, file []byte) map[string][]float32 {
	t.Helper()
	n := binary.LittleEndian.Uint64(file)
	var header map[string]struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	raw := file[8 : 8+n]
	raw = []byte(strings.Replace(string(raw), `"__metadata__":{"format":"pt"},`, "", 1))
	must(t, json.Unmarshal(raw, &header))
	tensors := map[string][]float32{}
	for name, h := range header {
		data := file[8+int(n):][h.Offsets[0]:h.Offsets[1]]
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		if h.DType != "F32" || h.Shape[0]*h.Shape[1] != len(x) {
			t.Fatalf("%s is %s of shape %v with %d elements", name, h.DType, h.Shape, len(x))
		}
		tensors[name] = x
	}
	return tensors
}

func TestTensorFilesForAnIndependentReader(t *testing.T) {
	s := newState(tiny(), 3)
	fsys := crashfs.New()
	store := owned(t, fsys, dir)
	must(t, s.save(store, 3))
	read := func(name string) map[string][]float32 {
		file, err := vfs.ReadFile(fsys, filepath.Join(store.Path(3), name), 1<<20)
		must(t, err)
		return readTensors(t, file)
	}
	weights, moments := read(checkpoints.ModelFile), read(checkpoints.OptimizerFile)
	if len(weights) != len(s.layout.Tensors) || len(moments) != 2*len(weights) {
		t.Fatalf("%d and %d tensors", len(weights), len(moments))
	}
	for _, tensor := range s.layout.Tensors {
		lo, hi := tensor.Offset, tensor.End()
		if !slices.Equal(weights[tensor.Name], s.params[lo:hi]) || !slices.Equal(moments["m."+tensor.Name], s.m[lo:hi]) || !slices.Equal(moments["v."+tensor.Name], s.v[lo:hi]) {
			t.Errorf("tensor %s has other elements", tensor.Name)
		}
	}
}

func TestPythonReadsTheTensors(t *testing.T) {
	if err := exec.Command("python3", "-c", "import safetensors.numpy").Run(); err != nil {
		t.Skip("Python with the packages safetensors and numpy is not installed: the independent reader in Go stands in")
	}
	s := newState(tiny(), 3)
	store := owned(t, vfs.OS, t.TempDir())
	must(t, s.save(store, 3))
	const script = `
import struct, sys, safetensors.numpy as st
w = st.load_file(sys.argv[1] + "/model.safetensors")
o = st.load_file(sys.argv[1] + "/optimizer.safetensors")
print(len(w), len(o), w["layer0.mlp_fc1"].shape, struct.pack("<f", w["wte"][1, 2]).hex(), struct.pack("<f", o["v.wte"][1, 2]).hex())`
	out, err := exec.Command("python3", "-c", script, store.Path(3)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bits := func(x float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)) }
	n := len(s.layout.Tensors)
	want := fmt.Sprintf("%d %d (16, 4) %x %x", n, 2*n, bits(s.params[6]), bits(s.v[6]))
	if got := strings.TrimSpace(string(out)); got != want {
		t.Fatalf("Python reads %q, want %q", got, want)
	}
}

func TestEqualWeightsGiveEqualFiles(t *testing.T) {
	one, two := newState(tiny(), 4), newState(tiny(), 4)
	two.m[5]++ // the moments are no part of the weights
	sums := func(s *state, run string, step int) (weights, moments checkpoints.File) {
		store := owned(t, crashfs.New(), dir)
		w, err := store.Begin(step, s.config)
		must(t, err)
		must(t, w.WriteBucket(s.bucket(0)))
		fields := s.fields(step)
		fields.Run = run
		m, err := w.Commit(fields, []byte(tokenizer))
		must(t, err)
		weights, _ = m.File(checkpoints.ModelFile)
		moments, _ = m.File(checkpoints.OptimizerFile)
		return weights, moments
	}
	weights1, moments1 := sums(one, "demo", 10)
	weights2, moments2 := sums(two, "another", 2000)
	if weights1 != weights2 {
		t.Errorf("equal weights: %v and %v", weights1, weights2)
	}
	if moments1 == moments2 {
		t.Errorf("other moments: %v both times", moments1)
	}
}

func TestNumericOrder(t *testing.T) {
	fsys := withCheckpoints(t, 1000, 99, 100000000, 100)
	store := owned(t, fsys, dir)
	steps, err := store.List()
	must(t, err)
	if want := []int{99, 100, 1000, 100000000}; !slices.Equal(steps, want) {
		t.Fatalf("steps %v, want %v", steps, want)
	}
	r, _, err := store.Newest(nil)
	must(t, err)
	must(t, r.Close())
	if r.Manifest().Step != 100000000 {
		t.Fatalf("step %d is taken for the newest", r.Manifest().Step)
	}
	deleted, err := store.Retain(100000000, 2)
	must(t, err)
	if !slices.Equal(deleted, []int{99, 100}) {
		t.Fatalf("deleted %v", deleted)
	}
}

func TestStrangeNamesAreLeftAlone(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	for _, name := range []string{"notes.txt", "step-1", "step-00000002.bak"} {
		must(t, vfs.WriteFileSync(fsys, filepath.Join(dir, name), []byte("x"), 0o644))
	}
	must(t, fsys.MkdirAll(filepath.Join(dir, checkpoints.TempPrefix+"step-00000007")))
	owned(t, fsys, dir)
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	if len(entries) != 4 { // three strangers and step 1; the unfinished one is gone
		t.Fatalf("%d names are left", len(entries))
	}
	if steps, err := dirstore.Open(fsys, dir).List(); err != nil || !slices.Equal(steps, []int{1}) {
		t.Fatalf("steps %v, %v", steps, err)
	}
}

func TestOpenTouchesNothing(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	writer, err := owned(t, fsys, dir).Begin(2, tiny()) // a live run is writing
	must(t, err)
	fsys.Inject(nil)
	r, _, err := dirstore.Open(fsys, dir).Newest(nil)
	must(t, err)
	must(t, r.Close())
	if log := fsys.Log(); len(log) != 0 {
		t.Fatalf("a reader did %q", log)
	}
	must(t, writer.Abort())
}

// notHere is a file system that makes no folder below one.
type notHere struct {
	vfs.FS
	dir string
}

func (n notHere) MkdirAll(path string) error {
	if strings.HasPrefix(path, n.dir+string(filepath.Separator)) {
		return fs.ErrPermission
	}
	return n.FS.MkdirAll(path)
}

// A folder that takes no checkpoint is refused at the start, not when the first one is due.
func TestAFolderThatTakesNoCheckpointIsRefused(t *testing.T) {
	_, err := dirstore.OpenOwned(notHere{crashfs.New(), dir}, dir)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "make the folder writable") {
		t.Errorf("%v", err)
	}
}

func TestSecondCheckpointOfAStep(t *testing.T) {
	fsys := withCheckpoints(t, 1, 2)
	store := owned(t, fsys, dir)
	must(t, newState(tiny(), 2).save(store, 2))
	if err := newState(tiny(), 9).save(store, 2); err == nil || !strings.Contains(err.Error(), "another state") {
		t.Fatalf("another state of the same step: error %v", err)
	}
	if steps := newestAfter(t, fsys); !slices.Equal(steps, []int{1, 2}) {
		t.Fatalf("checkpoints %v", steps)
	}
}

func TestWriterRefusals(t *testing.T) {
	s := newState(tiny(), 1)
	short := func(x []float32) []float32 { return x[:len(x)-1] }
	for name, c := range map[string]struct {
		run  func(w *dirstore.Writer) error
		want string
	}{
		"no bucket": {func(w *dirstore.Writer) error { return commit(w, s.fields(5)) }, "only 0 of 1"},
		"short bucket": {func(w *dirstore.Writer) error {
			return w.WriteBucket(s.params, short(s.m), s.v)
		}, "must be"},
		"bucket too many": {func(w *dirstore.Writer) error {
			must(t, w.WriteBucket(s.bucket(0)))
			return w.WriteBucket(s.bucket(0))
		}, "too many"},
		"other state": {func(w *dirstore.Writer) error {
			must(t, w.WriteBucket(s.bucket(0)))
			fields := s.fields(5)
			fields.StateDigest = model.Digest{}
			return commit(w, fields)
		}, "changed on the way"},
		"invalid manifest": {func(w *dirstore.Writer) error {
			must(t, w.WriteBucket(s.bucket(0)))
			fields := s.fields(5)
			fields.Run = ""
			return commit(w, fields)
		}, "run is"},
		"second commit": {func(w *dirstore.Writer) error {
			must(t, w.WriteBucket(s.bucket(0)))
			must(t, commit(w, s.fields(5)))
			must(t, w.Abort())
			return commit(w, s.fields(5))
		}, "before"},
	} {
		fsys := crashfs.New()
		store := owned(t, fsys, dir)
		w, err := store.Begin(5, tiny())
		must(t, err)
		if err := c.run(w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		must(t, w.Abort())
		entries, err := fsys.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), checkpoints.TempPrefix) {
				t.Errorf("%s: %s is left", name, e.Name())
			}
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	store := owned(t, crashfs.New(), dir)
	_, step := store.Begin(-1, tiny())
	_, shape := store.Begin(1, model.Config{})
	for want, err := range map[string]error{"step -1: the step must not be negative": step, "step 1: its model is not valid: ": shape} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// A look at the manifest and the sizes alone finds what they can tell, and names it.
func TestManifestAndSizes(t *testing.T) {
	fsys := withCheckpoints(t, 1)
	store := dirstore.Open(fsys, dir)
	m, err := store.Manifest(1)
	must(t, err)
	if m.Step != 1 || m.StateDigest != newState(tiny(), 1).digest() {
		t.Errorf("manifest %+v", m)
	}
	must(t, store.CheckSizes(m))
	config := filepath.Join(store.Path(1), checkpoints.ConfigFile)
	must(t, vfs.WriteFileSync(fsys, config, []byte("{}"), 0o644))
	cut := store.CheckSizes(m)
	must(t, fsys.Remove(config))
	gone := store.CheckSizes(m)
	must(t, fsys.MkdirAll(config))
	folder := store.CheckSizes(m)
	must(t, fsys.Rename(store.Path(1), store.Path(2)))
	_, renamed := store.Manifest(2)
	_, missing := store.Manifest(1)
	for want, err := range map[string]error{
		"config.json: has 2 bytes":             cut,
		"config.json: stat":                    gone,
		"config.json: is no regular file":      folder,
		"manifest.json: is that of step 1":     renamed,
		"manifest.json: open " + store.Path(1): missing,
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v, want one with %q and the folder", err, want)
		}
	}
}

func commit(w *dirstore.Writer, fields checkpoints.Manifest) error {
	_, err := w.Commit(fields, []byte(tokenizer))
	return err
}
