package kernels_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"andrea/kernels"
)

// entry matches a kernel of an image with its parameters; parameter one of these.
var (
	entry     = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)`)
	parameter = regexp.MustCompile(`\.param \.(\w+)`)
	threads   = regexp.MustCompile(`(?s)\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+), 1, 1`)
)

// TestTableFitsTheImages compares the entries of the images, their parameters and numbers of threads with the table.
func TestTableFitsTheImages(t *testing.T) {
	for _, module := range kernels.Modules() {
		image := imageOf(t, module)
		blocks := map[string]string{}
		for _, m := range threads.FindAllStringSubmatch(image, -1) {
			blocks[m[1]] = m[2]
		}
		var found []string
		for _, m := range entry.FindAllStringSubmatch(image, -1) {
			found = append(found, m[1])
			k, ok := kernels.Lookup(m[1])
			if !ok || k.Module != module {
				t.Errorf("%s: the image %s has this kernel, the table does not", m[1], module)
				continue
			}
			checkEntry(t, k, m[2], blocks[k.Name])
		}
		for _, k := range kernels.All() {
			if k.Module == module && !slices.Contains(found, k.Name) {
				t.Errorf("%s: the table has this kernel, the image %s does not", k.Name, module)
			}
		}
	}
}

func imageOf(t *testing.T, module string) string {
	t.Helper()
	image, err := kernels.Image(module)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func checkEntry(t *testing.T, k kernels.Kernel, list, threads string) {
	t.Helper()
	types := map[kernels.Type][]string{kernels.Pointer: {"u64"}, kernels.Int: {"u32"}, kernels.Float: {"f32"}}
	var got []string
	for _, p := range parameter.FindAllStringSubmatch(list, -1) {
		got = append(got, p[1])
	}
	if len(got) != len(k.Params) {
		t.Errorf("%s has %d parameters, in the table %d", k.Name, len(got), len(k.Params))
		return
	}
	for i, p := range k.Params {
		if !slices.Contains(types[p.Type], got[i]) {
			t.Errorf("%s: parameter %s is .%s, in the table type %d", k.Name, p.Name, got[i], p.Type)
		}
	}
	if threads != fmt.Sprint(k.Threads) {
		t.Errorf("%s takes at most %s threads a block, in the table %d", k.Name, threads, k.Threads)
	}
}

// TestImagesAreClean finds what must not be in an image: stack frames, calls, and floating-point operations that the
// driver's compiler could round or fuse as it likes.
func TestImagesAreClean(t *testing.T) {
	loose := regexp.MustCompile(`\b(add|sub|mul|mad|fma|div|sqrt|rcp)\.(approx\.|full\.|ftz\.)*(f32|f64)\b|\b(add|sub|mul|fma|div|sqrt|rcp)\.rn\.ftz|\b(sin|cos|tanh|div)\.approx`)
	for _, module := range kernels.Modules() {
		image := imageOf(t, module)
		for _, bad := range []string{".local", "call", ".extern .func", ".func", "atom.global.add.f32", "red.global.add.f32"} {
			if strings.Contains(image, bad) {
				t.Errorf("the image %s contains %q", module, bad)
			}
		}
		if m := loose.FindString(image); m != "" {
			t.Errorf("the image %s contains %q, whose rounding is not fixed", module, m)
		}
		if !strings.Contains(image, ".version 7.0") || !strings.Contains(image, ".target sm_80") {
			t.Errorf("the image %s is not PTX 7.0 for sm_80", module)
		}
	}
	for module, instructions := range map[string][]string{
		"gemm":               {"mma.sync", "ldmatrix.sync.aligned.m8n8.x4.shared", "ldmatrix.sync.aligned.m8n8.x4.trans", "cp.async.cg", "fma.rn.f32"},
		"attention_forward":  {"mma.sync", "cp.async.cg", "ex2.approx.ftz.f32", "fma.rn.f32"},
		"attention_backward": {"mma.sync", "cp.async.cg", "ex2.approx.ftz.f32", "fma.rn.f32"},
		"adamw":              {"div.rn.f32", "sqrt.rn.f32", "red.global.add.u64"},
	} {
		for _, i := range instructions {
			if !strings.Contains(imageOf(t, module), i) {
				t.Errorf("the image %s has no %s", module, i)
			}
		}
	}
}

// TestImagesAreOfTheseSources compares the digest in every image with the sources that lie beside it.
func TestImagesAreOfTheseSources(t *testing.T) {
	script, err := os.ReadFile("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^flags="(.*)"$`).FindSubmatch(script)
	sources, err := filepath.Glob("*.cu")
	if err != nil || flags == nil || len(sources) != len(kernels.Modules()) {
		t.Fatalf("%d sources for %d images, flags found: %v, %v", len(sources), len(kernels.Modules()), flags != nil, err)
	}
	headers, _ := filepath.Glob("*.h")
	slices.Sort(headers)
	headers = slices.DeleteFunc(headers, func(h string) bool { return h == "dev_host.h" })
	for _, source := range sources {
		hash := sha256.New()
		fmt.Fprintf(hash, "%s\n", flags[1])
		for _, file := range append(slices.Clone(headers), source) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			hash.Write(text)
		}
		head, _, _ := strings.Cut(imageOf(t, strings.TrimSuffix(source, ".cu")), "\n")
		if want := "// " + source + " sources " + hex.EncodeToString(hash.Sum(nil)); head != want {
			t.Errorf("the image begins with %q, its sources want %q: run kernels/build.sh", head, want)
		}
	}
}

// TestImagesAreReproducible compiles the sources again and compares every byte.
func TestImagesAreReproducible(t *testing.T) {
	needCompiler(t)
	version, err := exec.Command("clang++-19", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler, _, _ := strings.Cut(string(version), "\n")
	if !strings.Contains(imageOf(t, "act"), "// "+compiler+"\n") {
		t.Skipf("the images were compiled by another release than %s, which may write other text", compiler)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(cache, "andrea", "ptx") // what has been compiled is not compiled again
	if text, err := exec.Command("./build.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	for _, module := range kernels.Modules() {
		text, err := os.ReadFile(filepath.Join(out, module+".ptx"))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != imageOf(t, module) {
			t.Errorf("the image %s is not what build.sh makes of the sources: run kernels/build.sh", module)
		}
	}
}
