package describe_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andrea/cpuengine"
	"andrea/describe"
	"andrea/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// setting is that of the golden files: an engine of a fixed size, so that they do not
// change with the engine.
func setting(c model.Config) describe.Setting {
	return describe.Setting{
		Microbatch: 2, Lanes: 8, TokensPerStep: 32768, Threads: 2, GCPercent: 10,
		EngineBytes: 7*4*c.Parameters() + 400_000_000,
	}
}

func TestGolden(t *testing.T) {
	for _, variant := range model.Variants() {
		c, err := model.Variant(variant)
		if err != nil {
			t.Fatal(err)
		}
		d, err := describe.Of(c, setting(c))
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string][]byte{variant + ".txt": []byte(d.Text()), variant + ".json": append(asJSON, '\n')} {
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs: it would be\n%s", path, got)
			}
		}
	}
}

// The numbers that are known of the family from elsewhere.
func TestKnownNumbers(t *testing.T) {
	for variant, want := range map[string]struct {
		parameters, attentionPerLayer, attention, scores int64
		share, loss                                      float64
	}{
		"12m":  {12_780_288, 589_824, 3_538_944, 1 << 20, 0.277, 7.820},
		"120m": {98_698_752, 2_359_296, 28_311_552, 1_048_576, 0.287, 9.195},
		"480m": {480_513_024, 9_437_184, 150_994_944, 1 << 20, 0.314, 9.349},
	} {
		c, err := model.Variant(variant)
		if err != nil {
			t.Fatal(err)
		}
		d, err := describe.Of(c, setting(c))
		if err != nil {
			t.Fatal(err)
		}
		a := d.Attention
		if d.Parameters.Total != want.parameters || a.ParametersPerLayer != want.attentionPerLayer || a.Parameters != want.attention ||
			a.ScoresPerHead != want.scores || math.Abs(a.Share-want.share) > 5e-4 || math.Abs(d.LossAtStart-want.loss) > 5e-4 {
			t.Errorf("%s: %d parameters, attention %+v, loss %v", variant, d.Parameters.Total, a, d.LossAtStart)
		}
	}
}

// shapes draws small valid shapes of all kinds.
func shapes(t *rapid.T) model.Config {
	c := model.DefaultSwitches()
	c.NHead = rapid.IntRange(1, 8).Draw(t, "n_head")
	c.DModel = c.NHead * rapid.IntRange(1, 40).Draw(t, "head_dim")
	c.NLayer = rapid.IntRange(1, 20).Draw(t, "n_layer")
	c.Context = rapid.IntRange(1, 3000).Draw(t, "context")
	c.Vocab = rapid.IntRange(1, 70000).Draw(t, "vocab")
	c.EmbedNorm = rapid.Bool().Draw(t, "embed_norm")
	c.FinalNorm = rapid.Bool().Draw(t, "final_norm")
	return c
}

// Parts are wholes: nothing is counted twice or forgotten.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := shapes(t)
		s := describe.Setting{Microbatch: rapid.IntRange(1, 8).Draw(t, "microbatch"), Lanes: 1 << rapid.IntRange(0, 6).Draw(t, "lanes"), Threads: 3, GCPercent: 10}
		s.TokensPerStep = s.Lanes * s.Microbatch * c.Context
		var err error
		s.EngineBytes, err = cpuengine.Bytes(c, cpuengine.Options{Microbatch: s.Microbatch, Slots: model.Slots(s.Lanes), Threads: s.Threads})
		if err != nil {
			t.Fatal(err)
		}
		d, err := describe.Of(c, s)
		if err != nil {
			t.Fatal(err)
		}
		sum := func(parts []describe.Count) (n int64, share float64) {
			for _, p := range parts {
				n, share = n+p.Count, share+p.Share
			}
			return n, share
		}
		if n, share := sum(d.Parameters.Parts); n != int64(model.NewLayout(c).Size) || n != d.Parameters.Total || math.Abs(share-1) > 1e-9 {
			t.Errorf("the parts have %d parameters (share %v), the layout %d", n, share, model.NewLayout(c).Size)
		}
		if n, share := sum(d.Arithmetic.Parts); n != c.FLOPsPerToken() || n != d.Arithmetic.Total || math.Abs(share-1) > 1e-9 {
			t.Errorf("the parts have %d operations (share %v), the model %d", n, share, c.FLOPsPerToken())
		}
		m := d.Memory
		if m.State+m.Gradients+m.Activations != s.EngineBytes || m.Activations <= 0 || m.State+m.Gradients+m.Activations+m.Snapshot+m.Garbage+m.Program != m.Total {
			t.Errorf("memory of an engine of %d: %+v", s.EngineBytes, m)
		}
		if strings.Contains(d.Text(), "generic kernel") != (c.HeadDim()%16 != 0) {
			t.Errorf("head_dim %d:\n%s", c.HeadDim(), d.Text())
		}
	})
}

// What a fresh engine computes on random tokens is the loss that was foretold, whatever
// the switches.
func TestLossAtStartIsTheEngines(t *testing.T) {
	for _, switches := range []struct{ embed, final bool }{{true, false}, {false, true}, {true, true}, {false, false}} {
		c := model.DefaultSwitches()
		c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 512, 4, 1, 128, 300
		c.EmbedNorm, c.FinalNorm = switches.embed, switches.final
		d, err := describe.Of(c, describe.Setting{Microbatch: 4, Lanes: 1, TokensPerStep: 512})
		if err != nil {
			t.Fatal(err)
		}
		if got := freshLoss(t, c); math.Abs(got-d.LossAtStart) > 0.03 {
			t.Errorf("embed_norm %v, final_norm %v: the engine's loss is %.4f, foretold %.4f", c.EmbedNorm, c.FinalNorm, got, d.LossAtStart)
		}
	}
}

// freshLoss is the loss of an untrained model on four windows of pseudo-random tokens.
func freshLoss(t *testing.T, c model.Config) float64 {
	t.Helper()
	e, err := cpuengine.New(c, cpuengine.Options{Microbatch: 4, Slots: 1, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	layout := model.NewLayout(c)
	zeros, params := make([]float32, model.BucketSize), make([]float32, model.BucketSize)
	for i := range layout.Buckets() {
		lo, hi := layout.Bucket(i)
		layout.InitBucket(1, i, params[:hi-lo])
		if err := e.Load(i, params[:hi-lo], zeros[:hi-lo], zeros[:hi-lo]); err != nil {
			t.Fatal(err)
		}
	}
	batch := model.Batch{Windows: 4, T: c.Context, Tokens: make([]uint32, 4*(c.Context+1))}
	for i := range batch.Tokens {
		batch.Tokens[i] = uint32(i) * 2654435761 >> 8 % uint32(c.Vocab)
	}
	loss, err := e.Eval(batch)
	if err != nil {
		t.Fatal(err)
	}
	return loss.Mean()
}
