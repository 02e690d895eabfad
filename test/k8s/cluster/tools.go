// Package cluster runs a real Kubernetes in namespaces of its own, which the kernel clears away with the process: a control
// plane alone, or with nodes. It builds the programs that it needs.
package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Programs of a control plane, and of what runs pods.
const (
	Etcd       = "etcd"
	APIServer  = "kube-apiserver"
	Kubectl    = "kubectl"
	Controller = "kube-controller-manager"
	Scheduler  = "kube-scheduler"
	Kubelet    = "kubelet"
	Containerd = "containerd"
	Shim       = "containerd-shim-runc-v2"
	Ctr        = "ctr"
	CoreDNS    = "coredns"
)

// ControlPrograms are what Control needs, ClusterPrograms what a Cluster needs besides.
var (
	ControlPrograms = []string{Etcd, APIServer, Kubectl}
	ClusterPrograms = []string{Controller, Scheduler, Kubelet, Containerd, Shim, Ctr, CoreDNS}
)

// source is a package, and its module's folder below test/k8s/tools: what shares no versions shares no module.
type source struct{ module, pkg string }

var sources = map[string]source{
	Etcd:       {".", "go.etcd.io/etcd/server/v3"},
	APIServer:  {".", "k8s.io/kubernetes/cmd/kube-apiserver"},
	Kubectl:    {".", "k8s.io/kubernetes/cmd/kubectl"},
	Controller: {".", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	Scheduler:  {".", "k8s.io/kubernetes/cmd/kube-scheduler"},
	Kubelet:    {".", "k8s.io/kubernetes/cmd/kubelet"},
	Containerd: {"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
	Shim:       {"containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
	Ctr:        {"containerd", "github.com/containerd/containerd/v2/cmd/ctr"},
	CoreDNS:    {"coredns", "github.com/coredns/coredns"},
}

// Tools are built programs.
type Tools struct {
	modules string            // folder test/k8s/tools
	dirs    map[string]string // of the programs, by module
}

// ErrNotBuilt is the error when programs are missing.
var ErrNotBuilt = errors.New("they are not built yet: run 'go run ./build' or 'go run ./build cluster' in test/k8s, which takes minutes once")

// FindTools says where the built programs lie: in the user's cache, under the digest of what they are made of. modules is
// the folder test/k8s/tools.
func FindTools(modules string) (Tools, error) {
	t := Tools{modules: modules, dirs: map[string]string{}}
	cache, err := os.UserCacheDir()
	for _, s := range sources {
		if _, known := t.dirs[s.module]; known || err != nil {
			continue
		}
		var sum string
		sum, err = sumModule(filepath.Join(modules, s.module))
		t.dirs[s.module] = filepath.Join(cache, "andrea", "k8s-tools", sum)
	}
	if err != nil {
		return t, fmt.Errorf("looking for the programs of Kubernetes: %w", err)
	}
	return t, nil
}

// sumModule is the digest of the versions of a module's dependencies and of the compiler.
func sumModule(dir string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return fmt.Sprintf("%x", h.Sum(nil)[:16]), nil
}

// Path is where a program lies.
func (t Tools) Path(program string) string {
	return filepath.Join(t.dirs[sources[program].module], program)
}

// Missing lists those of the programs that are not built.
func (t Tools) Missing(programs []string) (missing []string) {
	for _, program := range programs {
		if _, err := os.Stat(t.Path(program)); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// Build builds those of the programs that are missing, in a build cache that is thrown away, since it grows to gigabytes;
// tell is told what is built.
func (t Tools) Build(programs []string, tell func(string)) (err error) {
	missing := t.Missing(programs)
	if len(missing) == 0 {
		return nil
	}
	cache, err := os.MkdirTemp("", "andrea-k8s-build-")
	if err != nil {
		return fmt.Errorf("building %v: %w", missing, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	flags, err := t.linkerFlags()
	if err != nil {
		return err
	}
	for _, program := range missing {
		tell("building " + program)
		if err := t.build(program, flags, cache); err != nil {
			return fmt.Errorf("building %s: %w", program, err)
		}
	}
	return nil
}

// linkerFlags tell the programs of Kubernetes their version, such as v1.37.2.
func (t Tools) linkerFlags() (string, error) {
	c := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	c.Dir = t.modules
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of Kubernetes: %w", err)
	}
	const variable = "k8s.io/component-base/version"
	version := strings.TrimSpace(string(out))
	numbers := append(strings.Split(strings.TrimPrefix(version, "v"), "."), "", "")
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", variable, version, numbers[0], numbers[1]), nil
}

// build builds one program; it appears when it is whole.
func (t Tools) build(program, flags, cache string) error {
	if err := os.MkdirAll(filepath.Dir(t.Path(program)), 0o755); err != nil {
		return err
	}
	unfinished := t.Path(program) + ".new"
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", unfinished, sources[program].pkg)
	c.Dir = filepath.Join(t.modules, sources[program].module)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+cache, "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(unfinished, t.Path(program))
}

// hostPrograms are what a node needs of the machine, with the Debian package that has it.
var hostPrograms = map[string]string{
	"runc": "runc", "ip": "iproute2", "iptables": "iptables", "conntrack": "conntrack", cniFolder + "/bridge": "containernetworking-plugins",
}

// cniFolder is where the plugins for the network of pods lie.
const cniFolder = "/usr/lib/cni"

// MissingPackages lists the Debian packages that a Cluster needs and the machine has not.
func MissingPackages() (packages []string) {
	for program, pkg := range hostPrograms {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	slices.Sort(packages)
	return packages
}

// InstallPackages installs the packages that are missing, on a Debian of which the user is root.
func InstallPackages(tell func(string)) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("the machine lacks %s, and only root of a Debian can install them by itself: install what has runc, ip, iptables, conntrack and the CNI plugins in %s", strings.Join(missing, ", "), cniFolder)
	}
	tell("installing " + strings.Join(missing, " "))
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
		if out, err := exec.Command("apt-get", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}
