package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVerifyRunAndReplay(t *testing.T) {
	p := trained(t, 1)
	v := decode[verifiedRun](t, p.run("", "verify-run", "demo", "--json"))
	if !v.True || v.Run != "runs/demo" || v.Steps != 20 || v.Committed != 20 || v.Windows != 160 || v.Tokens != 5120 || v.Checkpoints != 3 || len(v.Faults) != 0 {
		t.Errorf("%+v", v)
	}
	if r := p.run("", "verify-run", "runs/demo"); r.code != 0 || !strings.Contains(r.stdout, "5,120 in 160 windows") || !strings.Contains(r.stdout, "verdict     true: ") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	a := decode[replayedRun](t, p.run("", "replay", "demo", "--from", "18", "--json"))
	if a.After != 15 || a.To != 20 || a.Same != 5 || len(a.Difference) != 0 {
		t.Errorf("%+v", a)
	}
	if r := p.run("", "replay", "demo", "--from", "3", "--to", "4"); r.code != 0 || r.stdout != "computed again from the seed: steps 1 to 4 are as recorded, bit for bit\n" {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// What is not true ends with 1, what cannot be read or asked with 2.
func TestVerifyRunAndReplayTellWhatIsWrong(t *testing.T) {
	whole := trained(t, 1)
	swap := func(name, old, with string) func(place) {
		return func(p place) { p.write(name, strings.Replace(p.read(name), old, with, 1)) }
	}
	const journal = "runs/demo/journal.jsonl"
	for _, c := range []struct {
		name    string
		damage  func(p place)
		command []string
		code    int
		want    []string
	}{
		{"a line removed", func(p place) {
			lines := strings.SplitAfter(p.read(journal), "\n")
			p.write(journal, strings.Join(slices.Delete(lines, 6, 7), ""))
		}, []string{"verify-run", "demo"}, 1, []string{"step 4: ", "not shown to be true"}},
		{"the same, to be computed", func(p place) {
			lines := strings.SplitAfter(p.read(journal), "\n")
			p.write(journal, strings.Join(slices.Delete(lines, 6, 7), ""))
		}, []string{"replay", "demo", "--from", "1"}, 2, []string{"step 4: "}},
		{"a field changed", swap(journal, `"step":7,"action":"apply"`, `"step":7,"action":"skip"`), []string{"verify-run", "demo", "--json"}, 1, []string{"step 7: action is skip", `"true":false`}},
		{"the last state changed", func(p place) {
			text := p.read(journal)
			at := strings.LastIndex(text, `"state_digest":"`) + len(`"state_digest":"`)
			p.write(journal, text[:at]+strings.Repeat("0", 32)+text[at+32:])
		}, []string{"replay", "demo", "--from", "20"}, 1, []string{"step 20 is not", "step 20: state_digest is 0000"}},
		{"a manifest flipped", func(p place) { p.write(newest+"/manifest.json", flip(p.read(newest+"/manifest.json"), 40)) }, []string{"verify-run", "demo"}, 1, []string{"step-00000020", "steps       20 compared, ", "not true    1, the first in step 20"}},
		{"no such run", func(place) {}, []string{"verify-run", "other"}, 2, []string{"other"}},
		{"no such run to compute", func(place) {}, []string{"replay", "other", "--from", "1"}, 2, []string{"other"}},
		{"no such dataset", func(place) {}, []string{"verify-run", "demo", "--data", "nowhere"}, 2, []string{"nowhere"}},
		{"no from", func(place) {}, []string{"replay", "demo"}, 2, []string{"from"}},
		{"from nothing", func(place) {}, []string{"replay", "demo", "--from", "0"}, 2, []string{"steps 1 to 20"}},
		{"to nothing", func(place) {}, []string{"replay", "demo", "--from", "1", "--to", "0"}, 2, []string{"--to is 0"}},
		{"behind the end", func(place) {}, []string{"replay", "demo", "--from", "21"}, 2, []string{"steps 1 to 20"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := copied(t, whole)
			c.damage(p)
			r := p.run("", c.command...)
			for _, want := range c.want {
				if r.code != c.code || !strings.Contains(r.stdout+r.stderr, want) {
					t.Errorf("exit %d, want %d and %q\n%s%s", r.code, c.code, want, r.stdout, r.stderr)
				}
			}
		})
	}
}

// A dataset that lies elsewhere now is given by hand.
func TestVerifyRunOfADatasetThatHasMoved(t *testing.T) {
	p := trained(t, 1)
	job := p.read("runs/demo/job.yaml")
	_, rest, _ := strings.Cut(job, "path: ")
	former, _, _ := strings.Cut(rest, "\n")
	p.write("runs/demo/job.yaml", strings.Replace(job, former, filepath.Join(p.dir, "gone"), 1))
	if err := os.CopyFS(filepath.Join(p.dir, "here"), os.DirFS(former)); err != nil {
		t.Fatal(err)
	}
	if r := p.run("", "verify-run", "demo"); r.code != 2 || !strings.Contains(r.stderr, "with --data") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, command := range [][]string{{"verify-run", "demo", "--data", "here"}, {"replay", "demo", "--from", "19", "--data", "here"}} {
		if r := p.run("", command...); r.code != 0 {
			t.Errorf("%v: exit %d\n%s%s", command, r.code, r.stdout, r.stderr)
		}
	}
}
