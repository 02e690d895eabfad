package pipeline_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"andrea/pipeline"
)

// checkFloat says whether f comes back from JSON with the same bits; any NaN is a NaN.
func checkFloat(t interface{ Fatalf(string, ...any) }, f pipeline.Float) {
	data, err := json.Marshal(f)
	var g pipeline.Float
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	a, b := float64(f), float64(g)
	if err != nil || math.Float64bits(a) != math.Float64bits(b) && !(math.IsNaN(a) && math.IsNaN(b)) {
		t.Fatalf("%x is %s, which reads as %x: %v", math.Float64bits(a), data, math.Float64bits(b), err)
	}
}

func TestFloatsSurviveJSON(t *testing.T) {
	for _, bits := range []uint64{0, 1 << 63, 1, math.MaxUint64, 0x7ff0000000000000, 0xfff0000000000000, 0x7fefffffffffffff, 0x000fffffffffffff} {
		checkFloat(t, pipeline.Float(math.Float64frombits(bits)))
	}
	rapid.Check(t, func(t *rapid.T) {
		checkFloat(t, pipeline.Float(math.Float64frombits(rapid.Uint64().Draw(t, "bits"))))
	})
}

func TestWhatIsNoFloatIsRefused(t *testing.T) {
	for _, text := range []string{`null`, `"nan"`, `"Inf"`, `"1"`, `true`, `[]`, `{}`, `1e999`, `""`} {
		f := pipeline.Float(7)
		if err := json.Unmarshal([]byte(text), &f); err == nil {
			t.Errorf("%s reads as %v", text, f)
		}
	}
}
