package model

import (
	"errors"
	"fmt"
	"math/bits"
)

// Numerics is raised with every change of the bits that an engine computes; it is
// part of the engine class. A commit that raises it says why.
const Numerics = 1

// EngineClass names what decides the bits: kind ("cpu"), precision ("fp32") and
// Numerics.
func EngineClass(kind, precision string) string {
	return fmt.Sprintf("%s-%s-n%d", kind, precision, Numerics)
}

// Info says what an engine is.
type Info struct {
	Class  string // engine class: what decides the bits
	Device string // for people: processor or GPU, instruction set, threads
	Bytes  int64  // memory the engine has allocated when it was opened, in bytes
}

// Batch is one microbatch: Windows windows of T+1 tokens, T inputs and their
// targets. T may be below the model's context.
type Batch struct {
	Windows int
	T       int
	Tokens  []uint32 // [Windows][T+1]; the caller's, read only until the call returns
}

// Window returns the T+1 tokens of window w.
func (b Batch) Window(w int) []uint32 { return b.Tokens[w*(b.T+1) : (w+1)*(b.T+1)] }

// Check returns an error if the batch does not fit the model or a microbatch of
// at most maxWindows windows.
func (b Batch) Check(c Config, maxWindows int) error {
	if b.Windows < 1 || b.Windows > maxWindows || b.T < 1 || b.T > c.Context || len(b.Tokens) != b.Windows*(b.T+1) {
		return fmt.Errorf("checking a microbatch: %d windows of %d tokens with %d ids: the engine takes 1 to %d windows of 1 to %d tokens and one id more", b.Windows, b.T, len(b.Tokens), maxWindows, c.Context)
	}
	for i, id := range b.Tokens {
		if int64(id) >= int64(c.Vocab) {
			return fmt.Errorf("checking a microbatch: token %d of window %d has id %d: the model has %d ids: the dataset does not belong to this model", i%(b.T+1), i/(b.T+1), id, c.Vocab)
		}
	}
	return nil
}

// Loss is the sum of the cross-entropies of Tokens tokens, in nats.
type Loss struct {
	Sum    float64
	Tokens int64
}

// Add returns the loss of both.
func (l Loss) Add(o Loss) Loss { return Loss{l.Sum + o.Sum, l.Tokens + o.Tokens} }

// Mean is the loss per token in nats.
func (l Loss) Mean() float64 { return l.Sum / float64(l.Tokens) }

// Hyper is what AdamW needs for one step, settled once by the coordinator.
type Hyper struct {
	LR            float32 `json:"lr"`
	Beta1         float32 `json:"beta1"`
	OneMinusBeta1 float32 `json:"one_minus_beta1"`
	Beta2         float32 `json:"beta2"`
	OneMinusBeta2 float32 `json:"one_minus_beta2"`
	Correction1   float32 `json:"correction1"` // 1 - beta1^t
	Correction2   float32 `json:"correction2"` // 1 - beta2^t
	Eps           float32 `json:"eps"`
	Decay         float32 `json:"decay"` // for tensors with Decay; 0 for the others
}

// Slots is the number of gradient slots that folding a tree of lanes needs:
// log2(lanes) + 1. lanes is a power of two.
func Slots(lanes int) int { return bits.Len(uint(lanes)) }

// ErrDevice is in the error of every call of an engine whose device has failed for good: nothing but Close works any more. On
// another engine, opened anew, or in another process, the same work may succeed.
var ErrDevice = errors.New("the device has failed")

// Engine computes one replica of one model on one device. It has one caller at a
// time. A slot is a whole gradient; slots and buckets are numbered from 0. Errors
// of arguments change nothing.
type Engine interface {
	// Info says what the engine is; it never changes.
	Info() Info

	// Load sets bucket's weights and moments; the slices have the bucket's length
	// and stay the caller's. The moments may be nil in an engine that was opened
	// without gradient slots, for inference alone.
	Load(bucket int, params, m, v []float32) error
	// Save copies bucket's weights and moments into the caller's slices.
	Save(bucket int, params, m, v []float32) error

	// Eval returns the loss of a microbatch, forward only.
	Eval(Batch) (Loss, error)
	// Accumulate adds to slot the gradient of the loss sum (not the mean) of one
	// microbatch and returns that loss.
	Accumulate(slot int, b Batch) (Loss, error)
	// Zero sets a slot to +0.
	Zero(slot int) error
	// Fold adds slot src to slot dst: one node of the reduction tree.
	Fold(dst, src int) error
	// ReadGrad copies a bucket of a slot into the caller's slice.
	ReadGrad(slot, bucket int, dst []float32) error
	// WriteGrad sets a bucket of a slot.
	WriteGrad(slot, bucket int, src []float32) error
	// SumSquares sets sums, one for each bucket, to the float64 sums of squares of
	// the buckets of a slot, each in the fixed order of SumSquares in this package.
	SumSquares(slot int, sums []float64) error
	// Update applies AdamW to the whole replica with gradient slot·scale and
	// returns the digest of the new state.
	Update(slot int, scale float32, h Hyper) (Digest, error)

	// GradDigest returns the digest of a bucket of a slot.
	GradDigest(slot, bucket int) (Digest, error)
	// StateDigest returns the digest of a bucket's weights and moments.
	StateDigest(bucket int) (Digest, error)

	// Logits runs the forward pass over 1 to context tokens and writes the logits
	// [V] of the position into dst.
	Logits(tokens []uint32, position int, dst []float32) error

	// Close releases the device. The engine is unusable afterwards.
	Close() error
}

// Revealer is an Engine that hands out a gradient while it still computes, so that it can
// travel meanwhile.
type Revealer interface {
	Engine
	// AccumulateLast is Accumulate(slot, b), and then folds times Fold of the slot into the
	// one below it. As soon as nothing more is added to a bucket of the lowest slot it calls final
	// with it, each bucket once, the last one first; before that it is not to be read. From
	// then on others may call ReadGrad for that bucket, also while this call runs and while the
	// caller then takes digests and sums of squares. Errors of arguments change nothing.
	AccumulateLast(slot, folds int, b Batch, final func(bucket int)) (Loss, error)
}

// SumSquares adds the squares of a bucket in float64: eight partial sums, element
// i in partial i%8, then ((0+4)+(2+6)) + ((1+5)+(3+7)). Every engine that sums a
// bucket gives these bits.
func SumSquares(x []float32) float64 {
	var p0, p1, p2, p3, p4, p5, p6, p7 float64 // in registers, which an array would not be
	for len(x) >= 8 {
		p0 += square(x[0])
		p1 += square(x[1])
		p2 += square(x[2])
		p3 += square(x[3])
		p4 += square(x[4])
		p5 += square(x[5])
		p6 += square(x[6])
		p7 += square(x[7])
		x = x[8:]
	}
	p := [8]float64{p0, p1, p2, p3, p4, p5, p6, p7}
	for i, f := range x {
		p[i] += square(f)
	}
	return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

// square is exact: a product of two fp32 numbers fits into float64.
func square(f float32) float64 { return float64(float64(f) * float64(f)) }
