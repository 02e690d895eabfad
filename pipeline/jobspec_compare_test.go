package pipeline_test

import (
	"slices"
	"testing"

	"andrea/pipeline"
)

func TestDifferencesOfJobs(t *testing.T) {
	for _, test := range []struct {
		change string
		want   []string
	}{
		{"steps=50", nil},
		{"steps=51", []string{"steps: 50 became 51"}},
		{"optimizer.betas=[0.9, 0.99]", []string{"optimizer.betas: [0.9, 0.95] became [0.9, 0.99]"}},
		{"model.d_model=64", []string{"model.d_model: absent became 64"}},
		{"data.path=/data", []string{`data.path: "" became /data`}},
	} {
		before, after := pipeline.DefaultJobSpec(), pipeline.DefaultJobSpec()
		if err := after.Set(test.change); err != nil {
			t.Fatal(err)
		}
		if got := before.Differences(after); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.change, got, test.want)
		}
		if back := after.Differences(before); len(back) != len(test.want) {
			t.Errorf("%s, the other way: %q", test.change, back)
		}
	}
}
