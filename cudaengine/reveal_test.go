//go:build cuda && cgo && linux

package cudaengine

import (
	"errors"
	"slices"
	"testing"

	"andrea/enginetest"
	"andrea/model"
)

// A bucket that is read as soon as it is final has its last bits, however late the device does what is queued.
func TestFinalBucketsAreComputed(t *testing.T) {
	softwareOnly(t)
	c := small()
	c.NLayer, c.Context, c.Vocab = 1, 8, 8200
	layout := model.NewLayout(c)
	if layout.Buckets() < 2 {
		t.Fatal("the gradient has a single bucket")
	}
	state, batch := enginetest.DrawState(c, 1), enginetest.DrawBatch(c, 1, c.Context, 2)
	for _, streams := range []string{"eager", "lazy", "rand:1"} {
		t.Setenv("SOFTCUDA_STREAMS", streams)
		e := open(t, c, Options{Microbatch: 1, Slots: 2, Precision: BF16}).(model.Revealer)
		load(t, e, c, state)
		early, whole := make([]float32, layout.Size), make([]float32, layout.Size)
		read := func(into []float32, bucket int) error {
			lo, hi := layout.Bucket(bucket)
			return e.ReadGrad(0, bucket, into[lo:hi])
		}
		var reading error
		err := errors.Join(e.Zero(0), e.Zero(1))
		got, err1 := e.AccumulateLast(1, 1, batch, func(bucket int) { reading = errors.Join(reading, read(early, bucket)) })
		err = errors.Join(err, err1, reading, e.Zero(0), e.Zero(1))
		want, err1 := e.Accumulate(1, batch)
		err = errors.Join(err, err1, e.Fold(0, 1))
		for bucket := range layout.Buckets() {
			err = errors.Join(err, read(whole, bucket))
		}
		if err != nil || got != want || !slices.Equal(early, whole) {
			t.Errorf("%s: loss %v, want %v, %v; the same gradient: %v", streams, got, want, err, slices.Equal(early, whole))
		}
	}
}

// A device that fails while a gradient is handed out calls nothing final any more.
func TestFailureHandsOutNothing(t *testing.T) {
	softwareOnly(t)
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 1, Precision: FP32}).(model.Revealer)
	load(t, e, c, enginetest.DrawState(c, 1))
	batch := enginetest.DrawBatch(c, 1, 5, 2)
	for _, fail := range []string{"cuLaunchKernel:9:701", "cuEventRecord:1:1", "cuEventSynchronize:1:719"} {
		t.Setenv("SOFTCUDA_FAIL", fail)
		if _, err := e.AccumulateLast(0, 0, batch, func(int) { t.Errorf("%s: a bucket is final", fail) }); err == nil {
			t.Errorf("%s is not reported", fail)
		}
	}
}
