//go:build cuda && cgo && linux

package cudaengine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plants are faults of a kind that a GPU shows once in a while, and the tests that must find them every time.
var plants = []struct {
	fault, file, old, new, tests string
	quick                        bool // short runs plant it too
}{
	{"kernels that do not wait for the copies stream", "state.go",
		"e.compute.issue(func() error { return e.compute.stream.Wait(e.copied) })", "", "TestModesComputeTheSameBits", true},
	{"an event that is recorded before the copies", "backward.go",
		"	p.copies.in(p.mem.order, p.host.order, int64(p.rows)*words)\n", "	defer p.copies.in(p.mem.order, p.host.order, int64(p.rows)*words)\n", "TestModesComputeTheSameBits", false},
	{"a result that is read before the device has written it", "queue.go",
		"if waited := q.stream.Synchronize(); err == nil {", "if waited := error(nil); err == nil {", "TestModesComputeTheSameBits", false},
	{"a kernel with too little shared memory for what it was told", "load.go",
		"len(k.Params), k.Shared)", "len(k.Params), 0)", "TestResumeGivesTheSameBits", false},
	{"a bucket that is handed out before it is computed", "reveal.go",
		"err = e.do(m.passed.Synchronize)", "err = nil", "TestFinalBucketsAreComputed", false},
	{"a digest that is not zeroed", "compute.go",
		"e.compute.zero(e.mem.digest, 2*doubles/words)", "", "TestSuite/digests", false},
	{"bfloat16 weights that Load leaves as they were", "state.go",
		"if e.mem.half != 0 {", "if e.mem.half == 1 {", "TestAgreesWithTheCPUEngine", false},
}

// Each fault is planted into a copy of its file, and its tests must fail.
func TestPlantedFaultsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.fault, func(t *testing.T) {
			if testing.Short() && !p.quick {
				t.Skip("every fault costs a compilation: short runs plant one")
			}
			source, err := os.ReadFile(p.file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(source), p.old) != 1 {
				t.Fatalf("%s does not have %q once", p.file, p.old)
			}
			original, err := filepath.Abs(p.file)
			if err != nil {
				t.Fatal(err)
			}
			faulty := write(t, p.file, []byte(strings.Replace(string(source), p.old, p.new, 1)))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: faulty}})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "test", "-short", "-tags", "cuda", "-overlay", write(t, "overlay.json", overlay), "-run", p.tests, ".")
			output, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL") {
				t.Errorf("%s pass: %v\n%s", p.tests, err, output)
			}
		})
	}
}

// write writes a file of the test and returns its path.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
