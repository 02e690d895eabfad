package cpuengine

import (
	"andrea/cpuengine/internal/kernel"
	"andrea/model"
)

// digestOf is model.DigestOf by the kernels of a path.
func digestOf(path *kernel.Path, kind model.Kind, start int, x []float32) model.Digest {
	sums, done := path.MixSums(digestIndex(kind, start), x)
	return model.Digest(sums).Add(model.DigestOf(kind, start+done, x[done:]))
}

// digestIndex is what model.DigestOf mixes into the bits of the element at start.
func digestIndex(kind model.Kind, start int) uint64 { return uint64(kind)<<62 | uint64(start)<<32 }

// digestOf is model.DigestOf by the device's kernels.
func (d *device) digestOf(kind model.Kind, start int, x []float32) model.Digest {
	return digestOf(d.path, kind, start, x)
}

// stateDigestOf is model.StateDigestOf by the device's kernels.
func (d *device) stateDigestOf(start int, params, m, v []float32) model.Digest {
	return d.digestOf(model.Weight, start, params).
		Add(d.digestOf(model.FirstMoment, start, m)).
		Add(d.digestOf(model.SecondMoment, start, v))
}
