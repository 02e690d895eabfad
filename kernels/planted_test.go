package kernels_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted is a fault that a test puts into a copy of the sources, and the build of the device that must find it.
type planted struct {
	name     string
	file     string
	old, new string // the old text occurs once
	mode     string
	quick    bool // it takes a second or two: one of each kind
}

// faults are mistakes of the kinds that kernels have. Where two builds find one, the one that runs faster is named.
var faults = []planted{
	{"a product without the barrier of its loop", "gemm.cu", "    dev_sync(); // tile s is there for all", "    // tile s is there for all", "tsan", false},
	{"a product that waits for one tile less", "gemm.cu", "dev_cp_async_wait<STAGES - 2>();", "dev_cp_async_wait<STAGES - 1>();", "plain", true},
	{"a product that reads beyond a row", "gemm.cu", "dev_min(8, columns - piece * 8)", "8", "asan", false},
	{"a product that writes beyond its rows", "gemm.cu", "if (m >= p.M || n >= p.N) return;", "if (n >= p.N) return;", "asan", false},
	{"attention forward without the barrier after a tile", "attention_forward.cu", "      multiply_columns<D>(out, s, values + i % 2 * TILE);\n    }\n    dev_sync();", "      multiply_columns<D>(out, s, values + i % 2 * TILE);\n    }", "tsan", false},
	{"attention forward without its wait", "attention_forward.cu", "dev_cp_async_wait<1>();", "", "plain", false},
	{"general attention without the barrier after the softmax", "attention_forward.cu", "soften_row<T>(g, r);\n    dev_sync();", "soften_row<T>(g, r);", "plain", false},
	{"attention backward without the barrier before new statistics", "attention_backward.cu", "    dev_sync();\n    load_general_stats(g, b.lse, b.delta, h, query);", "    load_general_stats(g, b.lse, b.delta, h, query);", "tsan", false},
	{"attention that loads one row too many", "attention.h", "const bool exists = row < there;", "const bool exists = row <= there;", "asan", false},
	{"a sum of a block without its barrier", "tile.h", "  if (DEV_LANE == 0) scratch[DEV_WARP] = v;\n  dev_sync();", "  if (DEV_LANE == 0) scratch[DEV_WARP] = v;", "plain", false},
	{"a norm of one row too many", "norm.cu", "  const int row = row_of_warp();\n  if (row >= rows) return;\n  const long at = (long)row * width;\n  const float i", "  const int row = row_of_warp();\n  if (row > rows) return;\n  const long at = (long)row * width;\n  const float i", "asan", true},
	{"a barrier that half of a block reaches", "attention.h", "  for (int d = 0; d < head_dim; d += GENERAL_PIECE) {\n    dev_sync();", "  for (int d = 0; d < head_dim; d += GENERAL_PIECE) {\n    if (DEV_WARP % 2) dev_sync();", "plain", false},
	{"embeddings added before all have their part", "embed.cu", "  partial[DEV_THREAD] = sum;\n  dev_sync();", "  partial[DEV_THREAD] = sum;", "plain", true},
	{"a sum of squares that overwrites what is being read", "reduce.cu", "// exact product; zeros beyond the end change nothing\n      }\n    dev_sync();", "// exact product; zeros beyond the end change nothing\n      }", "tsan", true},
}

// proof is what the sanitizers write when they find a fault; the plain device fails a launch, or computes other bits in
// another order.
var proof = map[string]string{"plain": "", "asan": "ERROR: AddressSanitizer", "tsan": "WARNING: ThreadSanitizer: data race"}

// TestPlantedFaultsAreFound shows that the checks of this folder can fail.
func TestPlantedFaultsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs do not compile the device anew")
	}
	needCompiler(t)
	for _, f := range faults {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			if !f.quick && !*all {
				t.Skip("another fault of its kind is planted by default: run with -all")
			}
			found := strings.Join(f.find(t), "; ")
			if !strings.Contains(found, proof[f.mode]) || found == "" {
				t.Errorf("%s: not found by %s: %.300s", f.name, f.mode, found)
			}
		})
	}
}

// find builds the device with the fault and returns what shows it.
func (f planted) find(t *testing.T) (found []string) {
	t.Helper()
	d := start(t, build(t, "planted-"+f.mode, f.mode, f.sources(t)), sanitizerOptions...)
	var errs []error
	d.faults = &errs
	found = differences(d, partsOf(f.file), fewModes)
	d.check(d.end())
	for _, err := range errs {
		found = append(found, err.Error())
	}
	return found
}

// sources copies the sources with the fault planted. The objects of all files but the faulty one are found compiled.
func (f planted) sources(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, pattern := range []string{"*.cu", "*.h"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if file == f.file {
				if n := strings.Count(string(text), f.old); n != 1 {
					t.Fatalf("%s: %s has the text %d times, want once: the sources have changed", f.name, file, n)
				}
				text = []byte(strings.Replace(string(text), f.old, f.new, 1))
			}
			if err := os.WriteFile(filepath.Join(folder, file), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

// sanitizerOptions: the device frees what it has at the end; fibers are not stacks that use-after-return knows.
var sanitizerOptions = []string{"ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0", "TSAN_OPTIONS=halt_on_error=1"}

// TestSanitizers runs every kernel under the address and the thread sanitizer.
func TestSanitizers(t *testing.T) {
	if !*all {
		t.Skip("the device and the kernels are compiled twice more, which takes minutes: run with -all")
	}
	for _, mode := range []string{"asan", "tsan"} {
		t.Run(mode, func(t *testing.T) {
			if different := differences(start(t, build(t, mode, mode, "."), sanitizerOptions...), everyPart(), fewModes[:2]); len(different) > 0 {
				t.Errorf("other bits in another order of threads or copies: %v", different)
			}
		})
	}
}
