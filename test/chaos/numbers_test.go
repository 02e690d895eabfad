package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// However many workers there are, started by hand or by 'andrea train', a run ends in the same
// bits, and all processes with code 0.
func TestNumbersOfWorkers(t *testing.T) {
	everything := os.Getenv(everythingVariable) != ""
	for i, n := range []int{1, 2, 3, 5, 8} {
		if byHand := i%2 == 0; byHand || everything {
			t.Run(fmt.Sprintf("%d by hand", n), func(t *testing.T) { byHandTo(t, n) })
		}
		if children := i%2 == 1; children || everything {
			t.Run(fmt.Sprintf("%d children", n), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if _, err := command(dir, "andrea", "train", "--job", jobFile, "--run", "run", "--workers", strconv.Itoa(n)); err != nil {
					t.Fatal(err)
				}
				judge(t, filepath.Join(dir, "run"))
			})
		}
	}
}

func byHandTo(t *testing.T, workers int) {
	t.Parallel()
	c := newCluster(t, schedule{workers: workers}, newTable())
	c.supervise()
	for _, w := range c.workers {
		if code := w.wait(); code != 0 {
			c.fail(fmt.Sprintf("%s ended with code %d", w.name, code))
		}
	}
	judge(t, c.run())
}

// As many workers as a lane each allows, and a prime number of them that no tree fits.
func TestManyWorkers(t *testing.T) {
	dir := t.TempDir()
	first := ""
	for _, n := range []int{1, 61, 64} {
		run := strconv.Itoa(n)
		if _, err := command(dir, "andrea", "train", "--job", jobFile, "--run", run, "--workers", run, "--steps", "4",
			"--set", "batch.lanes=64", "--set", "batch.tokens_per_step=4096", "--set", "eval.every=2"); err != nil {
			t.Fatal(err)
		}
		got, err := sums(filepath.Join(dir, run), 4)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%d workers give\n%swant\n%s", n, got, first)
		}
		if _, err := command(dir, "andrea", "verify-run", run); err != nil {
			t.Error(err)
		}
	}
}
