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
