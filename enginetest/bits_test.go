package enginetest

import (
	"testing"

	"andrea/model"
)

// The plain engine is the same everywhere, on processors that fuse products and
// sums too: this digest was computed once.
func TestPlainEngineBits(t *testing.T) {
	const golden = "d301cc2fed380d2c67e0e3086221c33a"
	cfg := tiny()
	cfg.FinalNorm = true
	r := mount(t, func(cfg model.Config, microbatch, slots int) model.Engine {
		return NewPlain(cfg, microbatch, slots)
	}, cfg, 2, 1, DrawState(cfg, 1))
	var digest model.Digest
	for seed := range uint64(3) {
		r.zero(0)
		loss := r.accumulate(0, DrawBatch(cfg, 2, 31, seed))
		digest = r.update(0, 1/float32(loss.Tokens), hyper)
	}
	if digest.String() != golden {
		t.Errorf("the digest after three steps is %s, want %s", digest, golden)
	}
}
