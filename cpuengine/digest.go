package cpuengine

import "andrea/model"

// digestOf is model.DigestOf by the device's kernels.
func (d *device) digestOf(kind model.Kind, start int, x []float32) model.Digest {
	sums, done := d.path.MixSums(uint64(kind)<<62|uint64(start)<<32, x)
	return model.Digest(sums).Add(model.DigestOf(kind, start+done, x[done:]))
}

// stateDigestOf is model.StateDigestOf by the device's kernels.
func (d *device) stateDigestOf(start int, params, m, v []float32) model.Digest {
	return d.digestOf(model.Weight, start, params).
		Add(d.digestOf(model.FirstMoment, start, m)).
		Add(d.digestOf(model.SecondMoment, start, v))
}
