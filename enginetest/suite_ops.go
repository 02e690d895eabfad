package enginetest

import (
	"fmt"
	"math"
	"testing"

	"andrea/model"
)

// RunOps checks single operations of an engine against the reference at ragged
// shapes, by the tolerance rule. An operation that is nil is skipped: the engine
// has none of its own, and Run covers it as a part of the model.
func RunOps(t *testing.T, ops Ops) {
	for _, c := range opChecks(ops) {
		t.Run(c.name, func(t *testing.T) {
			if c.missing {
				t.Skipf("the engine shows no operation %s: Run covers it inside the model", c.name)
			}
			for _, s := range opShapes {
				c.check(t, ops, s)
			}
		})
	}
	t.Run("Attention_rows", func(t *testing.T) {
		if ops.Attention == nil {
			t.Skip("the engine shows no operation Attention: Run covers it inside the model")
		}
		for _, s := range opShapes {
			checkOpRows(t, ops, s)
		}
	})
}

// opShape is the operands of one operation: rows of windows·t, heads of headDim,
// a vocabulary. gain enlarges the operands of attention and cross-entropy, whose
// scores grow with its square.
type opShape struct {
	windows, t, heads, headDim, vocab int
	gain                              float64
}

// opShapes covers T 1, 7, 113, 200 and 549, for engines that go over queries and keys in
// tiles of up to 256: several of each and a ragged last one; every head_dim; scores and
// logits from flat to so large that one wins.
var opShapes = []opShape{
	{1, 1, 1, 72, 257, 1},
	{3, 1, 2, 8, 61, 1},
	{1, 7, 2, 24, 257, 1},
	{3, 7, 1, 64, 2305, 4},
	{1, 113, 1, 32, 257, 1},
	{1, 113, 2, 8, 61, 6},
	{1, 113, 1, 72, 61, 2},
	{2, 113, 2, 24, 61, 1},
	{1, 200, 1, 64, 257, 1},
	{1, 200, 2, 32, 61, 3},
	{1, 200, 1, 8, 61, 0.01},
	{1, 2*256 + 37, 1, 8, 61, 2},
}

func (s opShape) attentionShape() Heads {
	return Heads{Windows: s.windows, T: s.t, Count: s.heads, Dim: s.headDim}
}
func (s opShape) rows() int  { return s.windows * s.t }
func (s opShape) width() int { return s.heads * s.headDim }

// result is what an operation wrote, by name, in float64.
type result struct {
	name   string
	values []float64
}

// opCheck runs one operation in either precision on the same operands.
type opCheck struct {
	name    string
	missing bool
	fp32    func(Ops, opShape) []result
	fp64    func(OpTable[float64], opShape) []result
}

func opChecks(o Ops) []opCheck {
	return []opCheck{
		{"Embed", o.Embed == nil, runEmbed[float32], runEmbed[float64]},
		{"EmbedBackward", o.EmbedBackward == nil, runEmbedBackward[float32], runEmbedBackward[float64]},
		{"Norm", o.Norm == nil, runNorm[float32], runNorm[float64]},
		{"NormBackward", o.NormBackward == nil, runNormBackward[float32], runNormBackward[float64]},
		{"MulNT", o.MulNT == nil, runMulNT[float32], runMulNT[float64]},
		{"MulNN", o.MulNN == nil, runMulNN[float32], runMulNN[float64]},
		{"MulTN", o.MulTN == nil, runMulTN[float32], runMulTN[float64]},
		{"Attention", o.Attention == nil, runAttention[float32], runAttention[float64]},
		{"AttentionBackward", o.AttentionBackward == nil, runAttentionBackward[float32], runAttentionBackward[float64]},
		{"Activate", o.Activate == nil, runActivate[float32], runActivate[float64]},
		{"ActivateBackward", o.ActivateBackward == nil, runActivateBackward[float32], runActivateBackward[float64]},
		{"CrossEntropy", o.CrossEntropy == nil, runCrossEntropy[float32], runCrossEntropy[float64]},
	}
}

// check compares the operation's results with the reference.
func (c opCheck) check(t tester, ops Ops, s opShape) {
	got := c.fp32(ops, s)
	want := c.fp64(plainOps[float64](), s)
	plain := c.fp32(plainOps[float32](), s)
	for i, r := range got {
		m := measured{name: r.name, got: r.values, want: want[i].values, plain: plain[i].values}
		if err := m.check(); err != nil {
			t.Errorf("%s at %+v: %v", c.name, s, err)
		}
	}
}

// operand draws the same values for every precision.
func operand[F Float](n int, amplitude float64, seed uint64) []F {
	return convert[F](drawVector(n, amplitude, seed))
}

// poison is what a result that is written over holds before: it must not stay.
func poison[F Float](n int) []F {
	x := make([]F, n)
	for i := range x {
		x[i] = F(math.NaN())
	}
	return x
}

func one[F Float](name string, x []F) []result { return []result{{name, convert[float64](x)}} }

func runEmbed[F Float](ops OpTable[F], s opShape) []result {
	d := s.width()
	x := poison[F](s.rows() * d)
	ops.Embed(x, operand[F](s.vocab*d, 1, 1), operand[F](s.t*d, 1, 2), drawTokens(s.vocab, s.rows(), 3), s.t, d)
	return one("x", x)
}

func runEmbedBackward[F Float](ops OpTable[F], s opShape) []result {
	d := s.width()
	dwte, dwpe := operand[F](s.vocab*d, 1, 1), operand[F](s.t*d, 1, 2)
	// Few different tokens, so that most rows of dwte add up.
	ops.EmbedBackward(dwte, dwpe, operand[F](s.rows()*d, 1, 3), drawTokens(5, s.rows(), 4), s.t, d)
	return append(one("dwte", dwte), one("dwpe", dwpe)...)
}

func runNorm[F Float](ops OpTable[F], s opShape) (list []result) {
	for _, amplitude := range []float64{1, 1e-3, 1e3} {
		y := poison[F](s.rows() * s.width())
		ops.Norm(y, operand[F](len(y), amplitude, 1), s.width(), 1e-5)
		list = append(list, one(fmt.Sprintf("y for |x| up to %g", amplitude), y)...)
	}
	return list
}

func runNormBackward[F Float](ops OpTable[F], s opShape) (list []result) {
	for _, amplitude := range []float64{1, 1e-3, 1e3} {
		dx := operand[F](s.rows()*s.width(), 1, 1)
		ops.NormBackward(dx, operand[F](len(dx), 1, 2), operand[F](len(dx), amplitude, 3), s.width(), 1e-5)
		list = append(list, one(fmt.Sprintf("dx for |x| up to %g", amplitude), dx)...)
	}
	return list
}

// runMul multiplies matrices of m·n, with k products an element, with and without
// adding.
func runMul[F Float](mul func(c, a, b []F, m, n, k int, add bool), m, n, k int) []result {
	a, b := operand[F](m*k, 1, 1), operand[F](k*n, 1, 2)
	over, added := poison[F](m*n), operand[F](m*n, 1, 3)
	mul(over, a, b, m, n, k, false)
	mul(added, a, b, m, n, k, true)
	return append(one("product", over), one("sum", added)...)
}

func runMulNT[F Float](ops OpTable[F], s opShape) []result {
	return runMul(ops.MulNT, s.rows(), 3*s.width(), s.width())
}

func runMulNN[F Float](ops OpTable[F], s opShape) []result {
	return runMul(ops.MulNN, s.rows(), s.width(), 3*s.width())
}

func runMulTN[F Float](ops OpTable[F], s opShape) []result {
	return runMul(ops.MulTN, 3*s.width(), s.width(), s.rows())
}

func runAttention[F Float](ops OpTable[F], s opShape) []result {
	out := poison[F](s.rows() * s.width())
	ops.Attention(out, operand[F](3*len(out), s.gain, 1), s.attentionShape())
	return one("out", out)
}

func runAttentionBackward[F Float](ops OpTable[F], s opShape) []result {
	n := s.rows() * s.width()
	dqkv := poison[F](3 * n)
	ops.AttentionBackward(dqkv, operand[F](n, 1, 1), operand[F](3*n, s.gain, 2), s.attentionShape())
	return one("dqkv", dqkv)
}

// activations are the operand of the activations: zeros among other values.
func activations[F Float](s opShape) []F {
	x := operand[F](s.rows()*s.width(), 2, 1)
	for i := 0; i < len(x); i += 5 {
		x[i] = 0
	}
	return x
}

func runActivate[F Float](ops OpTable[F], s opShape) (list []result) {
	for _, act := range []model.Activation{model.ReLU, model.ReLUSquared} {
		x := activations[F](s)
		y := poison[F](len(x))
		ops.Activate(y, x, act)
		list = append(list, one(string(act), y)...)
	}
	return list
}

func runActivateBackward[F Float](ops OpTable[F], s opShape) (list []result) {
	for _, act := range []model.Activation{model.ReLU, model.ReLUSquared} {
		x := activations[F](s)
		dx := poison[F](len(x))
		ops.ActivateBackward(dx, operand[F](len(x), 1, 2), x, act)
		list = append(list, one(string(act), dx)...)
	}
	return list
}

// runCrossEntropy also asks for the loss without a gradient, which must be the same.
func runCrossEntropy[F Float](ops OpTable[F], s opShape) []result {
	logits := operand[F](s.rows()*s.vocab, 5*s.gain, 1)
	targets := drawTokens(s.vocab, s.rows(), 2)
	dlogits := poison[F](len(logits))
	loss := ops.CrossEntropy(dlogits, logits, targets, s.vocab)
	alone := ops.CrossEntropy(nil, logits, targets, s.vocab)
	return append(one("dlogits", dlogits), result{"loss", []float64{loss}}, result{"loss alone", []float64{alone}})
}

// checkOpRows sees that the probabilities of every row add up to 1, by values that
// are 1.
func checkOpRows(t tester, ops Ops, s opShape) {
	d := s.width()
	qkv := drawVector(3*s.rows()*d, s.gain, 1)
	for i := range qkv {
		if i%(3*d) >= 2*d {
			qkv[i] = 1
		}
	}
	out := poison[float32](s.rows() * d)
	ops.Attention(out, qkv, s.attentionShape())
	for i, sum := range out {
		if !(math.Abs(float64(sum)-1) < 1e-5) {
			t.Fatalf("Attention at %+v: row %d, head %d adds up to %v, want 1", s, i/d, i%d/s.headDim, sum)
		}
	}
}
