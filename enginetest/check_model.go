package enginetest

import (
	"math"

	"andrea/model"
)

// positions of a window of 113 tokens, at the edges of what engines compute
// together.
var positions = []int{0, 1, 15, 16, 31, 32, 63, 64, 110, 111, 112}

// checkCausality: logits have the same bits whatever follows their position, and
// depend on every token up to it.
func checkCausality(t tester, open opener) {
	cfg := tiny()
	cfg.Context = 113
	r := mount(t, open, cfg, 1, 1, DrawState(cfg, 1))
	tokens := drawTokens(cfg.Vocab, cfg.Context, 2)
	for _, position := range positions {
		want := r.logits(tokens, position)
		later := append([]uint32(nil), tokens...)
		for i := position + 1; i < len(later); i++ {
			later[i] = (later[i] + 7) % uint32(cfg.Vocab)
		}
		r.sameBits("logits after a change of all later tokens", r.logits(later, position), want)
		for _, i := range []int{0, position / 2, position} {
			earlier := append([]uint32(nil), tokens...)
			earlier[i] = (earlier[i] + 7) % uint32(cfg.Vocab)
			if !differ(r.logits(earlier, position), want) {
				t.Fatalf("the logits of position %d do not depend on token %d", position, i)
			}
		}
	}
}

func differ(x, y []float32) bool {
	for i := range x {
		if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
			return true
		}
	}
	return false
}

// checkAttentionRows sees that the probabilities of every row add up to 1, by
// values that are 1 everywhere: rows of +1 and -1 have one norm, a first column
// of +1 carries it to every value, wo is the identity and lm_head shows the
// residual stream, so that logit c is wte[token][c] + 1/sqrt(1 + eps).
func checkAttentionRows(t tester, open opener) {
	cfg := model.DefaultSwitches()
	cfg.DModel, cfg.NHead, cfg.NLayer, cfg.Context, cfg.Vocab = 48, 2, 1, 113, 61
	cfg.EmbedNorm = false
	s, wte := onesState(cfg)
	r := mount(t, open, cfg, 1, 1, s)
	tokens := drawTokens(cfg.Vocab, cfg.Context, 3)
	value := 1 / math.Sqrt(1+float64(cfg.NormEps))
	for _, position := range positions {
		id, logits := tokens[position], r.logits(tokens, position)
		for c := range cfg.DModel {
			if sum := float64(logits[c]) - float64(wte[int(id)*cfg.DModel+c]); !(math.Abs(sum-value) < 1e-5) {
				t.Fatalf("the attention row of position %d, head %d adds up to %v, want 1", position, c/cfg.HeadDim(), sum/value)
			}
		}
	}
}

// onesState is the state of checkAttentionRows, and its wte.
func onesState(cfg model.Config) (s State, wte []float32) {
	l := model.NewLayout(cfg)
	s = State{make([]float32, l.Size), make([]float32, l.Size), make([]float32, l.Size)}
	v := view(cfg, s.W)
	d := cfg.DModel
	for i, f := range drawVector(len(v.wte), 1, 1) {
		v.wte[i] = float32(math.Copysign(1, float64(f)))
		if i%d == 0 {
			v.wte[i] = 1
		}
	}
	copy(v.layers[0].wqkv, drawVector(2*d*d, 0.5, 2))
	for i := range d {
		v.layers[0].wqkv[(2*d+i)*d] = 1
		v.layers[0].wo[i*d+i] = 1
		v.head[i*d+i] = 1
	}
	return s, v.wte
}

// checkWindowsAreIndependent: the loss of a batch is that of its windows.
func checkWindowsAreIndependent(t tester, open opener) {
	cfg := tiny()
	r := mount(t, open, cfg, 3, 1, DrawState(cfg, 1))
	batch := DrawBatch(cfg, 3, 37, 2)
	var sum model.Loss
	for w := range batch.Windows {
		sum = sum.Add(r.eval(model.Batch{Windows: 1, T: batch.T, Tokens: batch.Window(w)}))
	}
	all := r.eval(batch)
	if !(math.Abs(all.Sum-sum.Sum) <= 1e-6*sum.Sum) || all.Tokens != sum.Tokens {
		t.Fatalf("the loss of 3 windows is %v of %d tokens, of each alone %v of %d", all.Sum, all.Tokens, sum.Sum, sum.Tokens)
	}
}

// initialConfig is a middle shape for the losses at init.
func initialConfig() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 128, 4, 1, 32, 2305
	return c
}

// initialState is the product's initial state.
func initialState(cfg model.Config) State {
	l := model.NewLayout(cfg)
	s := State{make([]float32, l.Size), make([]float32, l.Size), make([]float32, l.Size)}
	for b := range l.Buckets() {
		lo, hi := l.Bucket(b)
		l.InitBucket(1, b, s.W[lo:hi])
	}
	return s
}

// checkLossAtInit: rows of unit size enter a head of standard deviation 0.02, so
// the logits have the variance d·0.02², and the mean of exp(logit) is the
// exponential of half of it.
func checkLossAtInit(t tester, open opener) {
	cfg := initialConfig()
	r := mount(t, open, cfg, 2, 1, initialState(cfg))
	got := r.eval(DrawBatch(cfg, 2, cfg.Context, 2)).Mean()
	want := math.Log(float64(cfg.Vocab)) + float64(cfg.DModel)*0.02*0.02/2
	if !(math.Abs(got-want) < 0.1) {
		t.Fatalf("the loss at init on random tokens is %v, want %v within 0.1", got, want)
	}
}

// checkLossWithZeroHead: all logits equal, the loss is exactly ln V.
func checkLossWithZeroHead(t tester, open opener) {
	cfg := initialConfig()
	s := initialState(cfg)
	clear(view(cfg, s.W).head)
	r := mount(t, open, cfg, 2, 1, s)
	got := r.eval(DrawBatch(cfg, 2, cfg.Context, 2)).Mean()
	if want := math.Log(float64(cfg.Vocab)); !(math.Abs(got-want) < 1e-6*want) {
		t.Fatalf("the loss with lm_head zero is %v, want ln %d = %v", got, cfg.Vocab, want)
	}
}
