package andrea

import (
	"os"
	"path/filepath"
	"testing"

	"andrea/pipeline"
	"andrea/tokenizer"
)

// The job specs that are shipped must be jobs.
func TestShippedJobsAreValid(t *testing.T) {
	files, err := filepath.Glob("jobs/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("jobs: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := pipeline.ParseJobSpec(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		segments := 8192
		if spec.Model.Variant == "12m" {
			segments = 2048
		}
		tokens := tokenizer.Spec{Segments: segments}
		plan, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Tokenizer: tokens.String(), Vocab: tokens.Vocab(), Tokens: 1 << 40})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if plan.Model.Variant != spec.Model.Variant {
			t.Errorf("%s: the shape is %s, want %s", file, plan.Model.Variant, spec.Model.Variant)
		}
	}
}
