package pipeline_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"andrea/model"
	"andrea/pipeline"
)

// tinyData is the dataset of tinyJob.
var tinyData = pipeline.DatasetInfo{Fingerprint: "f", Tokenizer: "bytes", Vocab: 11, Tokens: 200}

// bigData suits the 12m variant.
var bigData = pipeline.DatasetInfo{Fingerprint: "f00d", Tokenizer: "harris:2048", Vocab: 2305, Tokens: 10_000_000}

// planOf checks a job in YAML.
func planOf(t *testing.T, yaml string, data pipeline.DatasetInfo) (*pipeline.Plan, error) {
	t.Helper()
	spec, err := pipeline.ParseJobSpec([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.NewPlan(spec, data)
}

func TestTheDefaultJobFitsItsVariant(t *testing.T) {
	p, err := planOf(t, "", bigData)
	if err != nil {
		t.Fatal(err)
	}
	if p.Model.Variant != "12m" || p.Model.Parameters() != 12_780_288 || p.Sampler.MicrobatchesPerLane() != 1 || len(p.ValidationWindows) != 16 {
		t.Errorf("plan = %+v", p)
	}
	golden(t, "resolved.yaml", string(p.Spec.Marshal()))
}

// The resolved spec is the whole job: it resolves to itself, and says which dataset.
func TestAResolvedSpecResolvesToItself(t *testing.T) {
	for _, yaml := range []string{
		"", "model: {d_model: 64, n_head: 2}", "model: {activation: relu, embed_norm: false, final_norm: true, norm_eps: 1e-6}",
		"model: {variant: custom, d_model: 8, n_head: 1, n_layer: 1, context: 8}\nbatch: {tokens_per_step: 64, lanes: 4}",
		`model: {variant: "", d_model: 8, n_head: 1, n_layer: 1, context: 8}` + "\nbatch: {tokens_per_step: 64, lanes: 4}",
	} {
		p, err := planOf(t, yaml, bigData)
		if err != nil {
			t.Fatalf("%s: %v", yaml, err)
		}
		again, err := planOf(t, string(p.Spec.Marshal()), bigData)
		if err != nil {
			t.Fatalf("%s: the resolved spec: %v", yaml, err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Errorf("%s: resolved\n%s\nthen\n%s", yaml, p.Spec.Marshal(), again.Spec.Marshal())
		}
		config, err := pipeline.ConfigOf(p.Spec)
		if err != nil || config != p.Model {
			t.Errorf("%s: ConfigOf gives %+v, %v", yaml, config, err)
		}
		_, err = pipeline.NewPlan(p.Spec, pipeline.DatasetInfo{Fingerprint: "beef", Tokenizer: bigData.Tokenizer, Vocab: bigData.Vocab, Tokens: bigData.Tokens})
		if err == nil || !strings.Contains(err.Error(), "has fingerprint beef: the job is pinned to f00d") {
			t.Errorf("%s: another dataset: %v", yaml, err)
		}
	}
}

func TestOverridesMakeAVariantCustom(t *testing.T) {
	for _, c := range []struct {
		yaml    string
		data    pipeline.DatasetInfo
		variant string
		dModel  int
		vocab   int
	}{
		{"", bigData, "12m", 384, 2305},
		{"model: {d_model: 384, vocab: 2305}", bigData, "12m", 384, 2305},
		{"model: {final_norm: true, activation: relu}", bigData, "12m", 384, 2305}, // switches are no shape
		{"model: {d_model: 96}", bigData, "custom", 96, 2305},
		{"model: {vocab: 2306}", bigData, "custom", 384, 2306},
		{"", pipeline.DatasetInfo{Tokenizer: "bytes", Vocab: 257, Tokens: 1 << 20}, "custom", 384, 257},
		{"model: {variant: 120m, n_layer: 2}", bigData, "custom", 768, 2305},
	} {
		p, err := planOf(t, c.yaml, c.data)
		if err != nil {
			t.Errorf("%s: %v", c.yaml, err)
			continue
		}
		if m := p.Model; m.Variant != c.variant || m.DModel != c.dModel || m.Vocab != c.vocab {
			t.Errorf("%s: model %+v", c.yaml, m)
		}
	}
}

func TestWrongJobsAreRefused(t *testing.T) {
	small := bigData
	small.Tokens = 1024
	few := bigData
	few.Tokens = 5 * 1024
	for _, c := range []struct {
		name, yaml string
		data       pipeline.DatasetInfo
		want       string
	}{
		{"vocab below the ids", "model: {vocab: 2304}", bigData, "model: vocab 2304 is not above the dataset's largest id 2304: the tokenizer harris:2048 has 2305 ids"},
		{"remainder", "model: {d_model: 512, n_head: 7}", bigData, "model: d_model 512 is not divisible by n_head 7: remainder 1"},
		{"no heads", "model: {d_model: 768, n_head: 0}", bigData, "model: n_head is 0"},
		{"unknown variant", "model: {variant: 13m}", bigData, `model.variant: choosing the model variant: "13m" is unknown: the variants are [12m 120m 480m]`},
		{"custom without numbers", "model: {variant: custom}", bigData, "model: d_model is 0"},
		{"no window", "", small, "data: dataset: it has 1024 tokens, but one window of context 1024 needs 1025"},
		{"fewer windows than a step", "", few, "batch: dataset: it has 3 training windows (1 more are held out for validation), but one step needs 8"},
		{"tokens do not divide", "batch: {tokens_per_step: 8000}", bigData, "8192: the remainder is 8000"},
		{"lanes", "batch: {lanes: 6}", bigData, "batch: lanes: 6 is not a power of two"},
		{"too many lanes", "batch: {lanes: 8192, tokens_per_step: 8388608}", bigData, "batch: lanes 8192 are too many: the losses of at most 4096 fit a message"},
		{"microbatch", "batch: {microbatch: 256, lanes: 1, tokens_per_step: 262144}", bigData, "batch: microbatch 256 of context 1024 has 262400 ids: at most 200000 fit a message"},
		{"validation", "data: {validation: 1}", bigData, "data: validation fraction: 1 is not in [0, 1)"},
		{"validation NaN", "data: {validation: .nan}", bigData, "data: validation fraction: NaN is not in [0, 1)"},
		{"name", "name: Demo", bigData, `name is "Demo": use 1 to 63 of a-z, 0-9 and -, not at the ends`},
		{"steps", "steps: 0", bigData, "steps is 0: must be between 1 and"},
		{"eval windows", "eval: {windows: 40000}", bigData, "eval.windows is 40000: must be between 1 and 32768"},
		{"precision", "precision: fp16", bigData, `precision is "fp16": must be fp32 or bf16`},
		{"precision of a kind", "{precision: bf16, engine: cpu}", bigData, `precision is "bf16": the engine "cpu" has fp32 alone`},
		{"precision of a class", "{precision: bf16, engine: cuda-nvidia_h200-fp32-n1}", bigData, `precision is "bf16": the engine class "cuda-nvidia_h200-fp32-n1" computes fp32`},
		{"digest_every", "digest_every: 2", bigData, "digest_every is 2: must be 1"},
		{"lr above fp32", "optimizer: {lr: 1e39}", bigData, "optimizer.lr is 1e+39: must be a positive number in fp32"},
		{"lr below fp32", "optimizer: {lr: 1e-50, min_lr: 0}", bigData, "optimizer.lr is 1e-50: must be a positive number in fp32"},
		{"lr NaN", "optimizer: {lr: .nan}", bigData, "optimizer.lr is NaN"},
		{"min_lr above lr", "optimizer: {min_lr: 1}", bigData, "optimizer.min_lr is 1: must be between 0 and lr 0.001"},
		{"eps above fp32", "optimizer: {eps: 1e39}", bigData, "optimizer.eps is 1e+39"},
		{"eps below fp32", "optimizer: {eps: 1e-60}", bigData, "optimizer.eps is 1e-60: must be a positive number in fp32"},
		{"decay above fp32", "optimizer: {weight_decay: 1e39}", bigData, "optimizer.weight_decay is 1e+39"},
		{"clip", "optimizer: {grad_clip: .inf}", bigData, "optimizer.grad_clip is +Inf"},
		{"betas", "optimizer: {betas: [0.9]}", bigData, "optimizer.betas has 1 values: must have 2"},
		{"beta that rounds to 1", "optimizer: {betas: [0.9, 0.99999999999]}", bigData, "optimizer.betas[1] is 0.99999999999: must be at least 0 and below 1 in fp32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := planOf(t, c.yaml, c.data)
			if err == nil || p != nil || !strings.Contains(err.Error(), "checking the job: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestAllFaultsAreListedAtOnce(t *testing.T) {
	_, err := planOf(t, `
name: -x
model: {d_model: 512, n_head: 7, n_layer: -1, vocab: 9, activation: gelu, norm_eps: 0}
data: {path: tokens, fingerprint: beef, validation: 0.1}
batch: {tokens_per_step: -5, microbatch: 0, lanes: 3}
optimizer: {lr: 0, min_lr: -1, warmup_steps: -1, betas: [1, -0.1], eps: 0, weight_decay: -1, grad_clip: -1}
steps: -1
eval: {every: -1, windows: 0}
checkpoint: {every: 0, keep_last: 0}
precision: fp64
engine: ""
digest_every: 0
on_nonfinite: cry
`, bigData)
	if err == nil {
		t.Fatal("no error")
	}
	golden(t, "all-faults.txt", err.Error()+"\n")
}

// The largest legal messages of a step fit a control message; package wire holds the
// other half of this promise.
func TestMessageLimitsAreReachable(t *testing.T) {
	data := bigData
	data.Tokens = 1 << 33
	yaml := fmt.Sprintf("batch: {lanes: %d, tokens_per_step: %d}\neval: {windows: %d}", pipeline.MaxLanes, pipeline.MaxLanes*1024, pipeline.MaxEvalWindows)
	if _, err := planOf(t, yaml, data); err != nil {
		t.Error(err)
	}
}

func TestNamesOfRuns(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "a-b": true, strings.Repeat("a", 63): true,
		"": false, "-": false, "a-": false, "-a": false, "A": false, "a.b": false, "a b": false, "ä": false, "a\n": false, "*": false, ">": false, strings.Repeat("a", 64): false,
	} {
		if got := pipeline.ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

func TestConfigOfRefusesWhatIsNotResolved(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"", "vocab is missing"},
		{"model: {vocab: 0}", "vocab is 0"},
		{"model: {vocab: 300, n_head: 5}", "remainder"},
	} {
		spec, err := pipeline.ParseJobSpec([]byte(c.yaml))
		if err != nil {
			t.Fatal(err)
		}
		if config, err := pipeline.ConfigOf(spec); err == nil || config != (model.Config{}) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v, want %q", c.yaml, config, err, c.want)
		}
	}
}
