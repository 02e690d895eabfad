package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	plantedFolder = "testdata/planted"
	moduleFolder  = "../.."
	fewestPlanted = 10
)

// planted is a bug: a patch that leaves one rule of the protocol out.
type planted struct {
	name  string
	what  string            // the rule, for people
	files map[string]string // patched text by path in the module
	seed  string            // the first that fails with it
	says  string            // the failure
}

// quickBugs are hunted in every run: the first seeds find them.
var quickBugs = map[string]bool{"commit_before_intent": true, "lanes_summed_in_a_row": true, "lost_lanes_dropped": true}

// Without any of the rules that the patches leave out, a seed fails that CI runs. All patches have to
// apply; an ordinary run builds and hunts a few of the bugs, since each takes seconds.
func TestPlantedBugsAreCaught(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(plantedFolder, "*.patch"))
	if err != nil || len(paths) < fewestPlanted {
		t.Fatalf("%s has %d patches, want at least %d: %v", plantedFolder, len(paths), fewestPlanted, err)
	}
	bugs, hunted := make([]planted, len(paths)), 0
	t.Run("bug", func(t *testing.T) {
		for i, path := range paths {
			bugs[i].name = strings.TrimSuffix(filepath.Base(path), ".patch")
			hunt := everything() || !testing.Short() && quickBugs[bugs[i].name]
			hunted += count(hunt)
			t.Run(bugs[i].name, func(t *testing.T) {
				bugs[i].read(t, path)
				if hunt {
					t.Parallel()
					bugs[i].hunt(t)
				}
			})
		}
	})
	if !everything() {
		if !testing.Short() && hunted != len(quickBugs) {
			t.Errorf("%d of the bugs %v were hunted", hunted, quickBugs)
		}
		return
	}
	table := plantedTable(bugs)
	t.Logf("the first seeds that fail:\n%s", table)
	if *update && !t.Failed() {
		if err := os.WriteFile(filepath.Join(plantedFolder, "README.md"), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read takes in a patch and applies it to copies of the module's files.
func (p *planted) read(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	what, diff, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	var commented bool
	if p.what, commented = strings.CutPrefix(what, "# "); !commented {
		t.Fatalf("%s does not begin with a comment that says what the bug is", path)
	}
	if p.files, err = applied(diff); err != nil {
		t.Fatalf("%s does not apply any more: %v: plant the bug anew", path, err)
	}
}

// applied applies a unified diff. A hunk is found by its text, wherever that has moved; it has
// to be there exactly once.
func applied(diff string) (map[string]string, error) {
	files := map[string]string{}
	for _, section := range strings.Split("\n"+diff, "\n--- ")[1:] {
		head, hunks, _ := strings.Cut(section, "\n@@")
		_, name, ok := strings.Cut(head, "\n+++ b/")
		if !ok || hunks == "" {
			return nil, fmt.Errorf("it is no unified diff at %.40q", section)
		}
		text, err := os.ReadFile(filepath.Join(moduleFolder, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		patched := strings.ReplaceAll(string(text), "\r\n", "\n")
		for _, hunk := range strings.Split(strings.TrimSuffix(hunks, "\n"), "\n@@") {
			before, after := sides(hunk)
			if n := strings.Count(patched, before); n != 1 || before == after {
				return nil, fmt.Errorf("%s has the text of a hunk %d times:\n%s", name, n, before)
			}
			patched = strings.Replace(patched, before, after, 1)
		}
		files[name] = patched
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("it changes no file")
	}
	return files, nil
}

// sides are what a hunk takes away and what it puts there, with the lines around.
func sides(hunk string) (before, after string) {
	_, lines, _ := strings.Cut(hunk, "\n") // the line numbers
	for line := range strings.Lines(lines + "\n") {
		switch line[0] {
		case '-':
			before += line[1:]
		case '+':
			after += line[1:]
		default:
			before, after = before+line[1:], after+line[1:]
		}
	}
	return before, after
}

// failing is how TestSeeds reports a seed.
var failing = regexp.MustCompile(`(?m)seed (\d+), \d+ workers: (.*)$`)

// hunt runs CI's seeds with the bug until one fails.
func (p *planted) hunt(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	binary := filepath.Join(folder, "sim.test.exe")
	if out, err := exec.Command("go", "test", "-c", "-overlay", p.overlay(t, folder), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the simulator with the bug: %v\n%s", err, out)
	}
	out, err := exec.Command(binary, "-test.run=^TestSeeds$", "-test.timeout=10m", "-enough=1", fmt.Sprintf("-seeds=%d", ciSeeds)).CombinedOutput()
	found := failing.FindSubmatch(out)
	switch {
	case err == nil:
		t.Fatalf("it survives %d seeds: %s", ciSeeds, p.what)
	case found == nil:
		t.Fatalf("running the seeds: %v\n%s", err, out)
	}
	p.seed, p.says = string(found[1]), string(found[2])
}

// overlay writes the patched files and says in whose places the compiler takes them.
func (p *planted) overlay(t *testing.T, folder string) (path string) {
	t.Helper()
	replace := map[string]string{}
	for name, text := range p.files {
		original, err := filepath.Abs(filepath.Join(moduleFolder, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(folder, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plantedLater names those that were written by somebody who knew the simulator.
const plantedLater = "`answer_not_repeated`, `late_answer_ignored`, `lost_ones_answer_kept`, `old_hello_ends`,\n" +
	"`question_not_repeated`, `round_outlives_membership`, `stale_applied_accepted` and `tie_is_majority`"

// plantedElsewhere names the bugs that were planted and are no patches any more.
const plantedElsewhere = `Seven more survived and were taken out. A worker that keeps its answers when a step is applied does no harm: the next
step's round makes it forget them. The stories of ../../../testdata/coordinator and TestHighestState find the others, which
need a meeting too rare for so few seeds: a second answer that differs while other leases are open is passed over, an
answer of an earlier round counts, a joiner's state is not compared, a joiner is taken in after the commit, a state that a
worker holds is not compared with its record, what somebody computed who has gone since is asked for when a sum is given up.

`

// plantedTable is what people read about the bugs.
func plantedTable(bugs []planted) string {
	var b strings.Builder
	b.WriteString("# Planted bugs\n\n")
	b.WriteString("Each patch leaves one rule of the protocol out. Most were written from the protocol alone, by somebody who had not\n")
	b.WriteString("read the simulator; " + plantedLater + " later, by somebody who had. Every run of the tests\n")
	b.WriteString("applies all patches and hunts three of the bugs.\n")
	b.WriteString("`ANDREA_TEST_EVERYTHING=1 go test ./pipeline/sim -run TestPlantedBugsAreCaught` builds the\n")
	fmt.Fprintf(&b, "simulator with one after the other and runs the %d seeds of CI; every bug has to fail one. With `-update` it writes\n", ciSeeds)
	b.WriteString("this table: the first seed that fails, and what the judge says of it.\n\n")
	b.WriteString(plantedElsewhere)
	b.WriteString("| bug | what it is | seed | what the judge says |\n|---|---|--:|---|\n")
	for _, p := range bugs {
		says := p.says
		if long := []rune(says); len(long) > 120 {
			says = string(long[:120]) + " ..."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.name, p.what, p.seed, strings.ReplaceAll(says, "|", `\|`))
	}
	return b.String()
}
