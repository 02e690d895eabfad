// Package cluster runs a real Kubernetes control plane in namespaces of its own, which the kernel clears away with the
// process, and builds the programs that it needs.
package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Programs of the control plane.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
	Kubectl   = "kubectl"
)

// packages are where the programs come from, all in the module test/k8s/tools.
var packages = map[string]string{
	Etcd:      "go.etcd.io/etcd/server/v3",
	APIServer: "k8s.io/kubernetes/cmd/kube-apiserver",
	Kubectl:   "k8s.io/kubernetes/cmd/kubectl",
}

// Tools are built programs.
type Tools struct {
	dir    string
	module string // folder of their module
}

// ErrNotBuilt is the error when programs are missing.
var ErrNotBuilt = errors.New("the programs of the control plane are not built yet: run 'go run ./build' in test/k8s, which takes minutes once")

// FindTools says where the built programs lie: in the user's cache, under the digest of what they are made of. module is
// the folder test/k8s/tools.
func FindTools(module string) (Tools, error) {
	fail := func(err error) (Tools, error) { return Tools{}, fmt.Errorf("looking for the control plane: %w", err) }
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return fail(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	cache, err := os.UserCacheDir()
	if err != nil {
		return fail(err)
	}
	return Tools{dir: filepath.Join(cache, "andrea", "k8s-tools", fmt.Sprintf("%x", h.Sum(nil)[:16])), module: module}, nil
}

// Path is where a program lies.
func (t Tools) Path(program string) string { return filepath.Join(t.dir, program) }

// Missing lists the programs that are not built.
func (t Tools) Missing() (missing []string) {
	for _, program := range []string{Etcd, APIServer, Kubectl} {
		if _, err := os.Stat(t.Path(program)); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// Build builds the programs that are missing, in a build cache that is thrown away, since it grows to gigabytes; tell is
// told what is built.
func (t Tools) Build(tell func(string)) (err error) {
	missing := t.Missing()
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	cache, err := os.MkdirTemp("", "andrea-k8s-build-")
	if err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	version, err := t.version()
	if err != nil {
		return err
	}
	for _, program := range missing {
		tell("building " + program)
		if err := t.build(program, version, cache); err != nil {
			return fmt.Errorf("building %s: %w", program, err)
		}
	}
	return nil
}

// version is that of Kubernetes, such as v1.37.2.
func (t Tools) version() (string, error) {
	c := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	c.Dir = t.module
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of Kubernetes: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build builds one program; it appears when it is whole.
func (t Tools) build(program, version, cache string) error {
	const variable = "k8s.io/component-base/version"
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	flags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", variable, version, major, minor)
	unfinished := t.Path(program) + ".new"
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", unfinished, packages[program])
	c.Dir = t.module
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+cache, "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(unfinished, t.Path(program))
}
