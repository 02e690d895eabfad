//go:build cuda && cgo && linux

package cudaengine

import (
	"andrea/cudaengine/internal/driver"
	"andrea/model"
)

// hostMemory is the pinned memory through which everything goes to the device and comes back.
type hostMemory struct {
	bucket [3]driver.Pinned // a bucket's weights and moments, or its gradient
	tokens driver.Pinned    // [windows][T+1] uint32
	order  driver.Pinned    // [R] uint32
	starts driver.Pinned    // [R+1] uint32
	ids    driver.Pinned    // [R] uint32
	result driver.Pinned    // a loss (float64) or a digest (2 uint64)
	sums   driver.Pinned    // [buckets] float64
	logits driver.Pinned    // [V] float32
}

// newHostMemory allocates what an engine of this shape needs.
func newHostMemory(d *driver.Device, c model.Config, o Options) (h hostMemory, err error) {
	layout := model.NewLayout(c)
	rows, bucket := int64(o.Microbatch)*int64(c.Context), int64(min(layout.Size, model.BucketSize))
	for _, p := range []struct {
		to       *driver.Pinned
		bytes    int64
		training bool
	}{
		{&h.bucket[0], bucket * words, false},
		{&h.bucket[1], bucket * words, true},
		{&h.bucket[2], bucket * words, true},
		{&h.tokens, (rows + int64(o.Microbatch)) * words, false},
		{&h.order, rows * words, true},
		{&h.starts, (rows + 1) * words, true},
		{&h.ids, rows * words, true},
		{&h.result, 2 * doubles, false},
		{&h.sums, int64(layout.Buckets()) * doubles, true},
		{&h.logits, int64(c.Vocab) * words, false},
	} {
		if p.training && !o.trains() {
			continue
		}
		if *p.to, err = d.Pin(p.bytes); err != nil {
			return h, err
		}
	}
	return h, nil
}
