package model

import "fmt"

// BucketSize is the number of parameters in a bucket; the last one may be shorter.
// A constant, because norms and digests are defined per bucket.
const BucketSize = 1 << 20

// Tensor is one matrix of the flat parameter vector, stored [Rows][Cols] row-major.
type Tensor struct {
	Name       string
	Rows, Cols int     // [out][in]
	Offset     int     // first element in the flat vector
	InitStd    float64 // standard deviation of the initial weights; 0: they start at zero
	Decay      bool    // weight decay applies
}

// Size is the number of elements.
func (t Tensor) Size() int { return t.Rows * t.Cols }

// End is the element after the last in the flat vector.
func (t Tensor) End() int { return t.Offset + t.Size() }

// Layout places the tensors in the flat parameter vector: wte, wpe, the layers,
// lm_head, without holes. Values are read only.
type Layout struct {
	Tensors []Tensor
	Size    int // elements in all
}

// Standard deviations of the initial weights (docs/decisions has the experiments).
const (
	embeddingStd = 0.1
	matrixStd    = 0.02
)

// NewLayout returns the layout of a valid config.
func NewLayout(c Config) Layout {
	l := &Layout{}
	d := c.DModel
	l.add("wte", c.Vocab, d, embeddingStd, false)
	l.add("wpe", c.Context, d, matrixStd, false)
	for i := range c.NLayer {
		layer := func(name string, rows, cols int, std float64) {
			l.add(fmt.Sprintf("layer%d.%s", i, name), rows, cols, std, true)
		}
		layer("attn_wq", d, d, matrixStd)
		layer("attn_wk", d, d, matrixStd)
		layer("attn_wv", d, d, matrixStd)
		layer("attn_wo", d, d, 0)
		layer("mlp_fc1", 4*d, d, matrixStd)
		layer("mlp_fc2", d, 4*d, 0)
	}
	l.add("lm_head", c.Vocab, d, matrixStd, true)
	return *l
}

func (l *Layout) add(name string, rows, cols int, std float64, decay bool) {
	l.Tensors = append(l.Tensors, Tensor{Name: name, Rows: rows, Cols: cols, Offset: l.Size, InitStd: std, Decay: decay})
	l.Size += rows * cols
}

// Tensor returns the tensor with that name.
func (l Layout) Tensor(name string) (Tensor, bool) {
	for _, t := range l.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// Buckets is the number of buckets.
func (l Layout) Buckets() int { return (l.Size + BucketSize - 1) / BucketSize }

// Bucket returns the range [lo, hi) of bucket i in the flat vector.
func (l Layout) Bucket(i int) (lo, hi int) {
	lo = i * BucketSize
	return lo, min(lo+BucketSize, l.Size)
}

// Pieces calls f for every tensor that meets the range [lo, hi) of the flat vector,
// in order, with the part [from, to) of the vector that both share.
func (l Layout) Pieces(lo, hi int, f func(t int, from, to int)) {
	for i, t := range l.Tensors {
		if from, to := max(lo, t.Offset), min(hi, t.End()); from < to {
			f(i, from, to)
		}
	}
}
