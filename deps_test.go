package andrea

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule says what a package may import of this module and of others, and why that is right. Test files
// are free.
type rule struct {
	pkg     string // folder
	pure    bool   // values in, values out: see impureImports
	project string // folders it may import, separated by blanks; "*" is every folder but those of cmd
	modules string // modules of others, separated by blanks
	std     string // exceptions to impureImports, and "C" where cgo is needed, separated by blanks
	why     string
}

// The modules of others.
const (
	arrow = "github.com/apache/arrow/go/v17"
	cobra = "github.com/spf13/cobra"
	cu    = "gorgonia.org/cu"
	nats  = "github.com/nats-io/nats.go github.com/nats-io/nats-server/v2 github.com/nats-io/nkeys"
	sys   = "golang.org/x/sys"
	term  = "golang.org/x/term"
	yaml  = "go.yaml.in/yaml/v3"
	zap   = "go.uber.org/zap"
)

// rules has one row for every package. A folder's top package is pure, a package below it named after
// the outside world does the input and output, and only launch and cmd know all of them.
var rules = []rule{
	{pkg: "numeric", pure: true, why: "arithmetic whose bits are promised stands on nothing"},
	{pkg: "model", pure: true, project: "numeric", why: "shapes, layout, digests and the engine interface are values"},
	{pkg: "dataset", pure: true, project: "numeric", why: "which windows a step trains on is arithmetic"},
	{pkg: "dataset/arrowfile", project: "dataset vfs", modules: arrow, why: "the only place that knows Arrow"},
	{pkg: "dataset/textdir", project: "dataset vfs", why: "reads folders of text"},
	{pkg: "dataset/prepare", project: "dataset dataset/arrowfile dataset/textdir tokenizer vfs", why: "turns text into a dataset: joins the importer, the tokenizer and the writer"},
	{pkg: "tokenizer", pure: true, project: "numeric", std: "hash/maphash", why: "bytes in, ids out; maphash only spreads a table whose order nothing depends on"},
	{pkg: "pipeline", pure: true, project: "dataset model numeric", modules: yaml, why: "the state machines; yaml reads the job spec from bytes"},
	{pkg: "pipeline/ledger", pure: true, project: "checkpoints dataset model pipeline", why: "judges a journal beside its plan and its tokens, which it reads through an interface"},
	{pkg: "pipeline/wire", pure: true, project: "model pipeline pipeline/wire/checksum", std: "unsafe", why: "messages to bytes and back; unsafe copies floats as they lie in memory"},
	{pkg: "pipeline/wire/checksum", pure: true, modules: sys, why: "sums bytes; asks the processor how fast it can"},
	{pkg: "pipeline/transport", pure: true, why: "the bus as the pipeline sees it: an interface"},
	{pkg: "pipeline/transport/natsbus", project: "pipeline/transport vfs", modules: nats + " " + zap, why: "the only place that knows NATS; zap carries the server's own log"},
	{pkg: "pipeline/sim", pure: true, project: "model numeric pipeline", why: "whole jobs from one seed, with no clock, goroutine or chance of its own"},
	{pkg: "pipeline/runner", project: "checkpoints checkpoints/dirstore dataset dataset/arrowfile model pipeline pipeline/transport pipeline/wire vfs", modules: zap, why: "executes the effects of the state machines; knows the bus, not NATS, and engines by their interface"},
	{pkg: "cpuengine", project: "cpuengine/internal/kernel cpuengine/internal/pool model numeric", why: "a device edge: owns threads, not files"},
	{pkg: "cpuengine/internal/kernel", project: "cpuengine/internal/pool numeric", modules: sys, why: "asks the processor what it can"},
	{pkg: "cpuengine/internal/kernel/gen", why: "writes the assembly; a program for developers"},
	{pkg: "cpuengine/internal/pool", why: "threads and nothing else"},
	{pkg: "kernels", pure: true, why: "the CUDA sources as values: a table of launches and embedded images"},
	{pkg: "bench", project: "cpuengine model", why: "times the engine and the machine: owns the clock"},
	{pkg: "cudaengine", project: "kernels model", why: "a device edge: launches kernels through its driver package"},
	{pkg: "cudaengine/internal/driver", modules: cu, std: "C", why: "the only place that calls the CUDA driver; C for the calls that cu lacks"},
	{pkg: "cudaengine/softcuda", why: "compiles the software CUDA device for tests"},
	{pkg: "enginetest", project: "model numeric", why: "judges engines by the interface alone"},
	{pkg: "checkpoints", pure: true, project: "model", why: "manifest, tensor header and retention as values"},
	{pkg: "checkpoints/dirstore", project: "checkpoints model vfs", why: "checkpoints in a folder"},
	{pkg: "checkpoints/audit", project: "checkpoints checkpoints/dirstore pipeline pipeline/runner vfs", why: "judges checkpoints beside the journal of their run, whose reader is the runner's"},
	{pkg: "describe", pure: true, project: "checkpoints model numeric", why: "what a shape means is arithmetic"},
	{pkg: "generate", pure: true, project: "dataset numeric", why: "sampling is a function of logits and a seed"},
	{pkg: "progress", pure: true, project: "pipeline", std: "time", why: "renders what it is given; the clock is passed in, time gives its type"},
	{pkg: "telemetry", project: "pipeline pipeline/transport pipeline/wire vfs", modules: zap, why: "the run's log, to a file and over the bus"},
	{pkg: "watch", pure: true, std: "time", why: "reading, merging and filtering log lines; time only gives its type"},
	{pkg: "watch/logdir", project: "vfs watch", why: "reads and follows the log files of a run"},
	{pkg: "vfs", modules: sys, why: "the door to the file system"},
	{pkg: "vfs/crashfs", project: "vfs", why: "the file system that forgets"},
	{pkg: "test/chaos", why: "has tests alone, of processes: it imports nothing"},
	{pkg: "image", pure: true, why: "files to an OCI layout"},
	{pkg: "scripts/gpu", project: "kernels model", why: "prints the launches that a GPU check repeats; a program for developers"},
	{pkg: "scripts/image", project: "image", why: "runs the compiler and writes the layout; a program for developers"},
	{pkg: "k8s", pure: true, project: "pipeline", modules: yaml, why: "manifests to objects, and what a cluster says to a state"},
	{pkg: "k8s/kubectl", why: "runs kubectl"},
	{pkg: "launch", project: "*", modules: zap + " " + sys, why: "builds whole processes from the parts"},
	{pkg: "cli", project: "*", modules: cobra + " " + zap + " " + sys + " " + term, why: "reads flags and wires"},
	{pkg: "cmd/andrea", project: "cli", why: "a main of one line"},
	{pkg: "cmd/coordinator", project: "cli", why: "a main of one line"},
	{pkg: "cmd/worker", project: "cli", why: "a main of one line"},
}

// impureImports are the packages, each with all below it, that a pure package may not import: files,
// network, processes, clocks, chance, logs and the machine it runs on.
var impureImports = []string{
	"crypto/rand", "hash/maphash", "io/ioutil", "log", "math/rand", "net", "os", "path/filepath", "plugin",
	"runtime", "syscall", "testing", "time", "unsafe",
}

// clockCalls are what a pure package that may import time for its types must still not call.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func TestImports(t *testing.T) {
	byPackage := map[string]rule{}
	for _, r := range rules {
		if _, twice := byPackage[r.pkg]; twice || r.why == "" {
			t.Errorf("rules: %s has two rows or no reason", r.pkg)
		}
		byPackage[r.pkg] = r
	}
	for _, f := range allFolders(t) {
		r, ok := byPackage[f.path]
		if !ok {
			t.Errorf("%s: a package without a rule: add a row to rules that says what it may import, and why", f.path)
			continue
		}
		for _, name := range f.sorted() {
			for _, fault := range r.faults(f.files[name]) {
				t.Errorf("%s: %s (%s: %s)", name, fault, r.pkg, r.why)
			}
		}
	}
}

// faults returns how a file breaks the rule.
func (r rule) faults(file *ast.File) []string {
	var faults []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !r.allows(name) {
			faults = append(faults, "it must not import "+spec.Path.Value)
		}
	}
	if r.pure {
		faults = append(faults, impurities(file)...)
	}
	return faults
}

// allows reports whether the rule lets its package import a package.
func (r rule) allows(name string) bool {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case first == modulePath:
		return slices.Contains(strings.Fields(r.project), rest) || r.project == "*" && !isIn(rest, "cmd") ||
			isIn(rest, r.pkg+"/internal")
	case strings.Contains(first, "."):
		return slices.ContainsFunc(strings.Fields(r.modules), func(module string) bool { return isIn(name, module) })
	case slices.Contains(strings.Fields(r.std), name):
		return true
	case !r.pure:
		return name != "C"
	}
	return name != "C" && !slices.ContainsFunc(impureImports, func(impure string) bool { return isIn(name, impure) })
}

// isIn reports whether a path is a folder or lies below it.
func isIn(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// impurities returns the goroutines that a file starts and the clocks that it reads.
func impurities(file *ast.File) []string {
	var faults []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			faults = append(faults, "a pure package starts no goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
				faults = append(faults, "a pure package does not call time."+n.Sel.Name)
			}
		}
		return true
	})
	return faults
}

// The rules must be able to fail.
func TestRulesRefuse(t *testing.T) {
	pure := rule{pkg: "a", pure: true, project: "b", modules: "x.org/m", std: "time"}
	edge := rule{pkg: "a", project: "*"}
	for _, test := range []struct {
		r    rule
		name string
		want bool
	}{
		{pure, "fmt", true}, {pure, "os", false}, {pure, "os/exec", false}, {pure, "osmosis", true}, {pure, "time", true},
		{pure, "net/http", false}, {pure, "runtime/debug", false}, {pure, "C", false}, {pure, "math/rand/v2", false},
		{pure, "andrea/b", true}, {pure, "andrea/c", false}, {pure, "andrea/b/c", false}, {pure, "andrea/a/internal/x", true},
		{pure, "x.org/m", true}, {pure, "x.org/m/sub", true}, {pure, "x.org/m2", false}, {pure, "y.org/m", false},
		{edge, "os", true}, {edge, "andrea/anything", true}, {edge, "andrea/cmd/worker", false}, {edge, "x.org/m", false}, {edge, "C", false},
	} {
		if got := test.r.allows(test.name); got != test.want {
			t.Errorf("%+v allows %s: %v", test.r, test.name, got)
		}
	}
}
