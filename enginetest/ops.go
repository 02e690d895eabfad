package enginetest

import (
	"math"

	"andrea/model"
	"andrea/numeric"
)

// Float is a precision of the plain loops.
type Float interface{ float32 | float64 }

// Heads is the shape of an attention: Windows·T rows of 3·Count·Dim values, the
// queries of all heads, then the keys, then the values.
type Heads struct {
	Windows, T int
	Count, Dim int // heads, and the size of one
}

// Width is the size of a row of the output, d_model.
func (h Heads) Width() int { return h.Count * h.Dim }

// OpTable is the operations of the network in one precision. Matrices are
// row-major without gaps; inputs are read only; a result is written over unless
// the member says that it adds.
type OpTable[F Float] struct {
	// Embed writes x[r] = wte[tokens[r]] + wpe[r%t] for rows of d values.
	Embed func(x, wte, wpe []F, tokens []uint32, t, d int)
	// EmbedBackward adds the rows of dx to the rows of dwte and dwpe they came from.
	EmbedBackward func(dwte, dwpe, dx []F, tokens []uint32, t, d int)

	// Norm writes y = x / sqrt(mean(x²) + eps) for every row of d values.
	Norm func(y, x []F, d int, eps F)
	// NormBackward adds to dx the gradient of Norm's input, given that of its output.
	NormBackward func(dx, dy, x []F, d int, eps F)

	// MulNT computes C[m,n] = A[m,k]·B[n,k]ᵀ, added to C if add.
	MulNT func(c, a, b []F, m, n, k int, add bool)
	// MulNN computes C[m,n] = A[m,k]·B[k,n], added to C if add.
	MulNN func(c, a, b []F, m, n, k int, add bool)
	// MulTN computes C[m,n] = A[k,m]ᵀ·B[k,n], added to C if add.
	MulTN func(c, a, b []F, m, n, k int, add bool)

	// Attention writes the causal attention of qkv [Windows·T, 3·Width] to out
	// [Windows·T, Width], with scores scaled by 1/sqrt(Dim).
	Attention func(out, qkv []F, h Heads)
	// AttentionBackward writes the gradient of qkv, given that of out.
	AttentionBackward func(dqkv, dout, qkv []F, h Heads)

	// Activate writes y = act(x).
	Activate func(y, x []F, act model.Activation)
	// ActivateBackward writes dx = dy·act'(x), with act'(0) = 0.
	ActivateBackward func(dx, dy, x []F, act model.Activation)

	// CrossEntropy returns the sum over rows of the loss in nats of logits
	// [len(targets), v] and writes its gradient to dlogits, unless that is nil.
	CrossEntropy func(dlogits, logits []F, targets []uint32, v int) float64
}

// Ops is the operations of an fp32 engine.
type Ops = OpTable[float32]

// plainOps is the table of the plain loops: every operation rounded to F, sums in
// one chain by ascending index.
func plainOps[F Float]() OpTable[F] {
	return OpTable[F]{
		Embed:             embed[F],
		EmbedBackward:     embedBackward[F],
		Norm:              norm[F],
		NormBackward:      normBackward[F],
		MulNT:             mulNT[F],
		MulNN:             mulNN[F],
		MulTN:             mulTN[F],
		Attention:         attention[F],
		AttentionBackward: attentionBackward[F],
		Activate:          activate[F],
		ActivateBackward:  activateBackward[F],
		CrossEntropy:      crossEntropy[F],
	}
}

func embed[F Float](x, wte, wpe []F, tokens []uint32, t, d int) {
	for r, id := range tokens {
		for i := range d {
			x[r*d+i] = wte[int(id)*d+i] + wpe[r%t*d+i]
		}
	}
}

func embedBackward[F Float](dwte, dwpe, dx []F, tokens []uint32, t, d int) {
	for r, id := range tokens {
		for i := range d {
			dwte[int(id)*d+i] += dx[r*d+i]
			dwpe[r%t*d+i] += dx[r*d+i]
		}
	}
}

func norm[F Float](y, x []F, d int, eps F) {
	for lo := 0; lo < len(x); lo += d {
		row := x[lo : lo+d]
		inv := 1 / sqrt(dot(row, row)/F(d)+eps)
		for i, f := range row {
			y[lo+i] = f * inv
		}
	}
}

// normBackward uses y = x·inv: dx = inv·(dy - y·mean(dy·y)).
func normBackward[F Float](dx, dy, x []F, d int, eps F) {
	y := make([]F, d)
	for lo := 0; lo < len(x); lo += d {
		row, drow := x[lo:lo+d], dy[lo:lo+d]
		inv := 1 / sqrt(dot(row, row)/F(d)+eps)
		for i, f := range row {
			y[i] = f * inv
		}
		mean := dot(drow, y) / F(d)
		for i := range y {
			dx[lo+i] += F(inv * (drow[i] - F(y[i]*mean)))
		}
	}
}

func mulNT[F Float](c, a, b []F, m, n, k int, add bool) {
	if !add {
		clear(c[:m*n])
	}
	for i := range m {
		for j := range n {
			c[i*n+j] = chain(c[i*n+j], a[i*k:(i+1)*k], b[j*k:(j+1)*k])
		}
	}
}

func mulNN[F Float](c, a, b []F, m, n, k int, add bool) {
	if !add {
		clear(c[:m*n])
	}
	for i := range m {
		for l := range k {
			axpy(c[i*n:(i+1)*n], a[i*k+l], b[l*n:(l+1)*n])
		}
	}
}

func mulTN[F Float](c, a, b []F, m, n, k int, add bool) {
	if !add {
		clear(c[:m*n])
	}
	for l := range k {
		for i := range m {
			axpy(c[i*n:(i+1)*n], a[l*m+i], b[l*n:(l+1)*n])
		}
	}
}

func activate[F Float](y, x []F, act model.Activation) {
	for i, f := range x {
		y[i] = max(f, 0)
		if act == model.ReLUSquared {
			y[i] *= y[i]
		}
	}
}

func activateBackward[F Float](dx, dy, x []F, act model.Activation) {
	for i, f := range x {
		switch {
		case act == model.ReLUSquared:
			dx[i] = dy[i] * (2 * max(f, 0))
		case f > 0:
			dx[i] = dy[i]
		default:
			dx[i] = 0
		}
	}
}

func crossEntropy[F Float](dlogits, logits []F, targets []uint32, v int) float64 {
	var loss float64
	p := make([]F, v)
	for r, target := range targets {
		row := logits[r*v : (r+1)*v]
		top, sum := exponentials(p, row)
		loss += numeric.Log(float64(sum)) + (float64(top) - float64(row[target]))
		if dlogits == nil {
			continue
		}
		drow := dlogits[r*v : (r+1)*v]
		for i := range p {
			drow[i] = p[i] / sum
		}
		drow[target]--
	}
	return loss
}

// exponentials writes exp(x - max(x)) to e and returns the maximum and the sum.
func exponentials[F Float](e, x []F) (top, sum F) {
	top = x[0]
	for _, f := range x {
		top = max(top, f)
	}
	for i, f := range x {
		e[i] = F(numeric.Exp(float64(f - top)))
		sum += e[i]
	}
	return top, sum
}

func dot[F Float](x, y []F) F { return chain(0, x, y) }

// chain adds the products of x and y to s, one after the other. The race detector
// would make it, and axpy, 20 times slower.
//
//go:norace
func chain[F Float](s F, x, y []F) F {
	y = y[:len(x)]
	for i, f := range x {
		s += F(f * y[i])
	}
	return s
}

// axpy adds a·x to y.
//
//go:norace
func axpy[F Float](y []F, a F, x []F) {
	y = y[:len(x)]
	for i, f := range x {
		y[i] += F(a * f)
	}
}

// sqrt is rounded once in either precision: a float64 root of a float32 value,
// rounded to float32, is the correctly rounded root.
func sqrt[F Float](x F) F { return F(math.Sqrt(float64(x))) }
