package checkpoints

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestStepFolder(t *testing.T) {
	for step, want := range map[int]string{0: "step-00000000", 100: "step-00000100", 99999999: "step-99999999", 100000000: "step-100000000"} {
		if got := StepFolder(step); got != want {
			t.Errorf("step %d: %q, want %q", step, got, want)
		}
	}
	for _, name := range []string{"", "step-", "step-1", "step--0000001", "step-+0000001", "step-0000000a", "step-000000100", "step-00000100 ", "Step-00000100", "step-99999999999999999999", ".tmp-step-00000100"} {
		if step, ok := ParseStepFolder(name); ok {
			t.Errorf("%q is taken for step %d", name, step)
		}
	}
}

func TestStepFolderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.IntMin(0).Draw(t, "step")
		if got, ok := ParseStepFolder(StepFolder(step)); !ok || got != step {
			t.Fatalf("step %d comes back as %d, %v", step, got, ok)
		}
	})
}

func TestExpired(t *testing.T) {
	ok := func(steps ...int) (p []Present) {
		for _, s := range steps {
			p = append(p, Present{Step: s})
		}
		return p
	}
	bad := func(step int) Present { return Present{Step: step, Damaged: true} }
	for name, c := range map[string]struct {
		present            []Present
		verified, keepLast int
		want               []int
	}{
		"nothing there":                      {nil, 5, 3, nil},
		"fewer than kept":                    {ok(1, 2), 2, 3, nil},
		"oldest go":                          {ok(1, 2, 3, 4, 5), 5, 3, []int{1, 2}},
		"numbers, not text":                  {ok(1000, 99, 100000000, 100), 100000000, 2, []int{99, 100}},
		"zero counts as one":                 {ok(1, 2), 2, 0, []int{1}},
		"negative counts as one":             {ok(1, 2), 2, -7, []int{1}},
		"newer ones stay":                    {ok(1, 2, 3, 9), 3, 1, []int{1, 2}},
		"damaged ones do not fill the quota": {append(ok(1, 2, 3, 6), bad(5), bad(4)), 6, 2, []int{1, 2}},
		"damaged ones go when old":           {append(ok(2, 3), bad(1)), 3, 2, []int{1}},
	} {
		if got := Expired(c.present, c.verified, c.keepLast); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v expire, want %v", name, got, c.want)
		}
	}
}

func TestExpiredKeepsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 1, 12, rapid.ID[int]).Draw(t, "steps")
		verified := rapid.SampledFrom(steps).Draw(t, "verified")
		keepLast := rapid.IntRange(-1, 6).Draw(t, "keepLast")
		present := make([]Present, len(steps))
		intact := 0 // as far as is known, not newer than verified
		for i, s := range steps {
			present[i] = Present{Step: s, Damaged: s != verified && rapid.Bool().Draw(t, "damaged")}
			if s <= verified && !present[i].Damaged {
				intact++
			}
		}
		want := min(max(keepLast, 1), intact)
		expired := Expired(present, verified, keepLast)
		if !slices.IsSorted(expired) {
			t.Fatalf("not oldest first: %v", expired)
		}
		for _, p := range present {
			gone := slices.Contains(expired, p.Step)
			if gone && p.Step >= verified {
				t.Fatalf("step %d goes", p.Step)
			}
			if gone && !p.Damaged {
				intact--
			}
		}
		if intact != want {
			t.Fatalf("%d intact ones are left, want %d", intact, want)
		}
	})
}
