package pipeline_test

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"andrea/pipeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it anew):\n%s", path, got)
	}
}

func TestDefaultsGolden(t *testing.T) {
	golden(t, "defaults.yaml", string(pipeline.DefaultJobSpec().Marshal()))
}

func TestJobSpecsAreReadStrictly(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown key", "name: a\nstep: 5\n", `line 2: unknown key "step"`},
		{"unknown nested key", "model:\n  variant: 12m\n  d_modle: 64\n", `line 3: unknown key "d_modle"`},
		{"unknown keys, all of them", "stepz: 1\nseed: 2\nsede: 3\n", "line 1: unknown key \"stepz\"\nline 3: unknown key \"sede\""},
		{"text for a number", "name: a\n\nsteps: many\n", `line 3: "many" is not a whole number`},
		{"number for a section", "model: 5\n", `line 1: "5" is not a section with keys of its own`},
		{"section for a text", "name: {a: b}\n", "line 1: a section is not a text"},
		{"list for a number", "optimizer:\n  lr: [1]\n", "line 2: a list is not a number"},
		{"number for a list", "optimizer: {betas: 3}\n", `line 1: "3" is not a list of numbers`},
		{"text in a list", "optimizer: {betas: [0.9, high]}\n", `line 1: "high" is not a number`},
		{"text for a switch", "model: {embed_norm: maybe}\n", `line 1: "maybe" is not true or false`},
		{"negative seed", "seed: -1\n", `line 1: "-1" is not a whole number that is not negative`},
		{"two faults", "steps: many\nseed: few\n", "line 1: \"many\" is not a whole number\nline 2: \"few\" is not"},
		{"a list", "- 1\n", "line 1: a list is not a section with keys of its own"},
		{"fraction", "name: a\nsteps: 2.5\n", "line 2: steps is 2.5: must be a whole number"},
		{"negative fraction", "seed: -0.5\n", "line 1: seed is -0.5: must be a whole number"},
		{"too large", "seed: 18446744073709551616\n", "line 1: seed is 18446744073709551616: must be a whole number of at most 64 bits"},
		{"nested fraction", "batch:\n  lanes: 8\n  microbatch: 1.5\n", "line 3: microbatch is 1.5"},
		{"fraction of an optional key", "model:\n  d_model: 64.1\n", "line 2: d_model is 64.1"},
		{"fraction through an alias", "optimizer: {lr: &x 0.5, warmup_steps: *x}\n", "warmup_steps is 0.5"},
		{"fraction in a merged section", "model: {<<: {d_model: 64.1}}\n", "d_model is 64.1"},
		{"fraction in a merged list", "model: {<<: [{d_model: 64.1}]}\n", "d_model is 64.1"},
		{"octal digits", "name: a\nsteps: 010\n", "line 2: steps is 010: write a number in plain decimal digits"},
		{"octal", "seed: 0o17\n", "seed is 0o17: write"},
		{"binary", "seed: 0b11\n", "seed is 0b11: write"},
		{"hexadecimal", "steps: 0x10\n", "steps is 0x10: write"},
		{"underscores", "steps: 1_000\n", "steps is 1_000: write"},
		{"octal digits, negative", "eval: {every: -010}\n", "every is -010: write"},
		{"octal digits with a tag", "steps: !!int 010\n", "steps is 010: write"},
		{"octal digits for a fraction", "optimizer: {grad_clip: 010}\n", "grad_clip is 010: write"},
		{"underscores in a fraction", "optimizer: {lr: 0.000_1}\n", "lr is 0.000_1: write"},
		{"octal digits of an optional key", "model: {d_model: 0100}\n", "d_model is 0100: write"},
		{"octal digits in a list", "optimizer: {betas: [0.9, 01]}\n", "betas[1] is 01: write"},
		{"no value", "name: a\nsteps:\n", "line 2: steps has no value: give one, or leave the key out"},
		{"repeated key", "steps: 1\nseed: 1\nsteps: 2\n", `line 3: mapping key "steps" already defined at line 1`},
		{"repeated nested key", "model:\n  d_model: 1\n  d_model: 2\n", `line 3: mapping key "d_model" already defined at line 2`},
		{"tab in a text", "name: a\ndata: {path: \"a\\tb\"}\n", `line 2: path is "a\tb": it contains a control character`},
		{"end of a line in a text", "engine: \"a\\nb\"\n", `line 1: engine is "a\nb": it contains a control character`},
		{"lines for a text", "name: |\n  a\n  b\n", `line 1: name is "a\nb\n": it contains a control character`},
		{"control character of an optional key", "model: {activation: \"\\x85\"}\n", `activation is "\u0085"`},
		{"control character in other clothes", "name: !!binary YQk=\n", `name is "a\t"`},
		{"control character through an alias", "name: &x \"\\0\"\nengine: *x\n", `engine is "\x00"`},
		{"second document", "steps: 1\n---\nsteps: 2\n", "there is a second document after ---: give one"},
		{"no YAML", "name: a\n  b: c\n", "line 2: mapping values are not allowed"},
		{"too large a file", "#" + strings.Repeat(" ", pipeline.MaxJobSpecBytes), "it has 1048577 bytes: at most 1048576 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, err := pipeline.ParseJobSpec([]byte(c.yaml))
			if err == nil || !strings.Contains(err.Error(), "reading the job spec: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to say %q", err, c.want)
			}
			if !reflect.DeepEqual(spec, pipeline.JobSpec{}) {
				t.Errorf("a spec with the error: %+v", spec)
			}
			if err != nil && (strings.Contains(err.Error(), "pipeline.") || strings.Contains(err.Error(), "int64")) {
				t.Errorf("error %v speaks of Go types", err)
			}
		})
	}
}

func TestWhatIsNotGivenHasItsDefault(t *testing.T) {
	for _, yaml := range []string{"", "# nothing\n", "{}\n", "model:\n", "---\n"} {
		if spec, err := pipeline.ParseJobSpec([]byte(yaml)); err != nil || !reflect.DeepEqual(spec, pipeline.DefaultJobSpec()) {
			t.Errorf("%q gives %+v, %v", yaml, spec, err)
		}
	}
	spec, err := pipeline.ParseJobSpec([]byte("model: {d_model: 64}\noptimizer: {lr: 2}\nsteps: 16\n"))
	if err != nil || spec.Model.Variant != "12m" || *spec.Model.DModel != 64 || spec.Optimizer.LR != 2 || spec.Optimizer.MinLR != 1e-4 || spec.Steps != 16 {
		t.Errorf("spec = %+v, %v", spec, err)
	}
}

func TestLargeModelsLearnAtALowerRate(t *testing.T) {
	for yaml, want := range map[string][2]float64{
		"model: {variant: 12m}":                                {1e-3, 1e-4},
		"model: {variant: 120m}":                               {6e-4, 6e-5},
		"model: {variant: 480m}":                               {3e-4, 3e-5},
		"model: {variant: 480m}\noptimizer: {lr: 1e-3}":        {1e-3, 3e-5},
		"model: {variant: custom, d_model: 64, n_head: 2}":     {1e-3, 1e-4},
		"model: {variant: 480m}\noptimizer: {min_lr: 0}\n":     {3e-4, 0},
		"optimizer: {warmup_steps: 3}\nmodel: {variant: 120m}": {6e-4, 6e-5},
	} {
		spec, err := pipeline.ParseJobSpec([]byte(yaml))
		if got := [2]float64{spec.Optimizer.LR, spec.Optimizer.MinLR}; err != nil || math.Abs(got[0]/want[0]-1) > 1e-9 || math.Abs(got[1]-want[1]) > 1e-12 {
			t.Errorf("%s: lr and min_lr are %v, want %v: %v", yaml, got, want, err)
		}
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		assignment string
		check      func(pipeline.JobSpec) bool
	}{
		{"steps=7", func(s pipeline.JobSpec) bool { return s.Steps == 7 }},
		{"model.d_model=96", func(s pipeline.JobSpec) bool { return *s.Model.DModel == 96 && *s.Model.NHead == 4 }},
		{"optimizer.betas=[0.5, 0.6]", func(s pipeline.JobSpec) bool { return slices.Equal(s.Optimizer.Betas, []float64{0.5, 0.6}) }},
		{"optimizer.lr=+.5E-3", func(s pipeline.JobSpec) bool { return s.Optimizer.LR == 0.0005 }},
		{"seed=18446744073709551615", func(s pipeline.JobSpec) bool { return s.Seed == 1<<64-1 }},
		{"name=010", func(s pipeline.JobSpec) bool { return s.Name == "010" }},
		{"optimizer.lr=3e-4", func(s pipeline.JobSpec) bool { return s.Optimizer.LR == 3e-4 }},
		{"model={n_layer: 3, context: 9}", func(s pipeline.JobSpec) bool { return *s.Model.NLayer == 3 && *s.Model.Context == 9 }},
		{"data.path=/data/a=b", func(s pipeline.JobSpec) bool { return s.Data.Path == "/data/a=b" }},
		{`data.path="C:\\tokens: 1"`, func(s pipeline.JobSpec) bool { return s.Data.Path == `C:\tokens: 1` }},
	} {
		spec := setBase(t)
		if err := spec.Set(c.assignment); err != nil || !c.check(spec) {
			t.Errorf("Set(%s): %v, %+v", c.assignment, err, spec)
		}
	}
}

// setBase is a spec whose pointers lead somewhere.
func setBase(t testing.TB) pipeline.JobSpec {
	spec, err := pipeline.ParseJobSpec([]byte("model: {d_model: 64, n_head: 4, norm_eps: 0.1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestABadSetChangesNothing(t *testing.T) {
	for _, c := range []struct{ assignment, want string }{
		{"steps", `setting "steps": it is not key=value`},
		{"=5", `setting "=5": it is not key=value`},
		{"", `setting "": it is not key=value`},
		{"nope=1", `setting nope: unknown key "nope"`},
		{"model.nope=1", `setting model.nope: unknown key "nope"`},
		{"steps.x=1", "setting steps.x: a section is not a whole number"},
		{".steps=1", `unknown key ""`},
		{"steps=many", `setting steps: "many" is not a whole number`},
		{"steps=2.5", "steps is 2.5: must be a whole number"},
		{"steps=010", "setting steps: steps is 010: write a number in plain decimal digits"},
		{"steps=", "setting steps: steps has no value"},
		{"data.path=#x", "path has no value"},
		{"name=a\nsteps: 9", "the value cannot be read"},
		{"steps=1\n---\n2", ""},
		{"model={d_model: 128, nope: 1}", `unknown key "nope"`},
		{"model={d_model: 128, n_head: x}", `"x" is not a whole number`},
		{"name={", "the value cannot be read"},
		{"name: x\nsteps=9", `unknown key`},
	} {
		spec := setBase(t)
		err := spec.Set(c.assignment)
		if err == nil && c.want == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Set(%q): error %v, want it to say %q", c.assignment, err, c.want)
		}
		if !reflect.DeepEqual(spec, setBase(t)) {
			t.Errorf("Set(%q) failed and changed the spec to\n%s", c.assignment, spec.Marshal())
		}
	}
}

// A copy of a spec is another spec.
func TestSetDoesNotReachIntoCopies(t *testing.T) {
	spec := setBase(t)
	kept := spec
	if err := spec.Set("model.d_model=128"); err != nil {
		t.Fatal(err)
	}
	if *kept.Model.DModel != 64 || *spec.Model.DModel != 128 {
		t.Errorf("the copy has d_model %d, the spec %d", *kept.Model.DModel, *spec.Model.DModel)
	}
}

// drawSpec draws any spec, sensible or not.
func drawSpec(t *rapid.T) pipeline.JobSpec {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "~", "null", "1", "1e3", "no", "a: b", "#", "- x", "\xff\xfe", "x\u2028y", "0x1", " ", "'", "<<", "..."})).
		Filter(func(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }) // refused: TestJobSpecsAreReadStrictly
	float := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 1e-300, math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, math.Copysign(0, -1)}))
	integer := rapid.Int()
	return pipeline.JobSpec{
		Name: text.Draw(t, "name"),
		Model: pipeline.ModelSpec{
			Variant: text.Draw(t, "variant"),
			DModel:  rapid.Ptr(integer, true).Draw(t, "d_model"), NHead: rapid.Ptr(integer, true).Draw(t, "n_head"),
			NLayer: rapid.Ptr(integer, true).Draw(t, "n_layer"), Context: rapid.Ptr(integer, true).Draw(t, "context"),
			Vocab: rapid.Ptr(integer, true).Draw(t, "vocab"), Activation: rapid.Ptr(text, true).Draw(t, "activation"),
			EmbedNorm: rapid.Ptr(rapid.Bool(), true).Draw(t, "embed_norm"), FinalNorm: rapid.Ptr(rapid.Bool(), true).Draw(t, "final_norm"),
			NormEps: rapid.Ptr(rapid.Float32(), true).Draw(t, "norm_eps"),
		},
		Data:  pipeline.DataSpec{Path: text.Draw(t, "path"), Fingerprint: text.Draw(t, "fingerprint"), Validation: float.Draw(t, "validation")},
		Batch: pipeline.BatchSpec{TokensPerStep: integer.Draw(t, "tokens"), Microbatch: integer.Draw(t, "microbatch"), Lanes: integer.Draw(t, "lanes")},
		Optimizer: pipeline.OptimizerSpec{
			LR: float.Draw(t, "lr"), MinLR: float.Draw(t, "min_lr"), WarmupSteps: rapid.Int64().Draw(t, "warmup"),
			Betas: rapid.SliceOfN(float, 0, 3).Draw(t, "betas"), Eps: float.Draw(t, "eps"),
			WeightDecay: float.Draw(t, "decay"), GradClip: float.Draw(t, "clip"),
		},
		Steps: rapid.Int64().Draw(t, "steps"), Seed: rapid.Uint64().Draw(t, "seed"),
		Eval:       pipeline.EvalSpec{Every: rapid.Int64().Draw(t, "every"), Windows: integer.Draw(t, "windows")},
		Checkpoint: pipeline.CheckpointSpec{Every: rapid.Int64().Draw(t, "save"), KeepLast: integer.Draw(t, "keep")},
		Precision:  text.Draw(t, "precision"), Engine: text.Draw(t, "engine"),
		DigestEvery: integer.Draw(t, "digest"), OnNonfinite: text.Draw(t, "nonfinite"),
	}
}

func TestMarshalAndParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		got, err := pipeline.ParseJobSpec(spec.Marshal())
		if err != nil {
			t.Fatalf("%v\n%s", err, spec.Marshal())
		}
		if !reflect.DeepEqual(got, spec) {
			t.Fatalf("got\n%+v\nwant\n%+v\nfrom\n%s", got, spec, spec.Marshal())
		}
	})
}

func TestAPathWithControlCharactersIsRefused(t *testing.T) {
	spec := pipeline.DefaultJobSpec()
	spec.Data.Path = "tokens/\t\n"
	if _, err := pipeline.NewPlan(spec, tinyData); err == nil || !strings.Contains(err.Error(), "control character") {
		t.Errorf("the plan of such a path: %v", err)
	}
}

func FuzzParseJobSpec(f *testing.F) {
	f.Add(pipeline.DefaultJobSpec().Marshal())
	f.Add([]byte("model: {<<: [&a {d_model: 3}, *a]}\nsteps: 5\n"))
	f.Add([]byte("seed: 1e19\n"))
	f.Add([]byte("model: &x {<<: *x}\n"))
	f.Add([]byte("name: \"\\u2028 x\\ufeff\"\nengine: \"a\\tb\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := pipeline.ParseJobSpec(data)
		if err != nil {
			return
		}
		text := spec.Marshal()
		again, err := pipeline.ParseJobSpec(text)
		if err != nil || string(again.Marshal()) != string(text) {
			t.Fatalf("the spec does not read back: %v\n%s\n%s", err, text, again.Marshal())
		}
		// Whatever was read can be judged.
		if plan, err := pipeline.NewPlan(spec, tinyData); err == nil && plan.Sampler.MicrobatchesPerLane() < 1 {
			t.Fatalf("a plan without microbatches: %+v", plan)
		}
	})
}
