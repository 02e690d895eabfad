package model

import "testing"

func TestClassParts(t *testing.T) {
	for _, test := range []struct{ class, kind, precision string }{
		{EngineClass("cpu", FP32), "cpu", FP32},
		{EngineClass("cuda-nvidia_h200", BF16), "cuda", BF16},
		{"cuda-nvidia_h200", "cuda", ""}, {"cuda", "cuda", ""}, {"cpu-fp32", "cpu", ""}, {"", "", ""},
	} {
		if kind, precision := ClassKind(test.class), ClassPrecision(test.class); kind != test.kind || precision != test.precision {
			t.Errorf("%q is of kind %q in %q, want %q in %q", test.class, kind, precision, test.kind, test.precision)
		}
	}
}

func TestClassFits(t *testing.T) {
	for _, test := range []struct {
		class, wanted string
		want          bool
	}{
		{"cpu-fp32-n1", AnyEngine, true}, {"cpu-fp32-n1", "cpu", true}, {"cpu-fp32-n1", "cpu-fp32-n1", true},
		{"cuda-nvidia_h200-bf16-n1", "cuda-nvidia_h200", true}, {"cuda-nvidia_h200-bf16-n1", "cuda-nvidia_h2", false},
		{"cpuid-fp32-n1", "cpu", false}, {"cpu-fp32-n1", "cuda", false}, {"cpu-fp32-n1", "", false},
	} {
		if got := ClassFits(test.class, test.wanted); got != test.want {
			t.Errorf("%s fits %q: %v", test.class, test.wanted, got)
		}
	}
}

func TestKindComputes(t *testing.T) {
	for _, test := range []struct {
		kind, precision string
		want            bool
	}{{"cpu", FP32, true}, {"cpu", BF16, false}, {"cuda", FP32, true}, {"cuda", BF16, true}, {"cuda", "fp16", false}} {
		if got := KindComputes(test.kind, test.precision); got != test.want {
			t.Errorf("%s computes %s: %v", test.kind, test.precision, got)
		}
	}
}
