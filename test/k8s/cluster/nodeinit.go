//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nodeVariable tells a process that it is the first one of a node; its value is the plan in JSON.
const nodeVariable = "ANDREA_K8S_NODE"

// plan is what the first process of a node needs to know.
type plan struct {
	Name     string
	Address  string            // in the network of nodes
	Pods     string            // network of its pods
	Dir      string            // where its files lie; they outlive it, like a disk
	Storage  string            // folder that all nodes have at storageFolder
	Cgroup   string            // above its pods, in every hierarchy
	Token    string            // for the API server
	Archives []string          // images to import
	Programs map[string]string // paths
}

// storageFolder is where a node has the volumes that are on all nodes.
const storageFolder = "/var/lib/andrea-volumes"

// containerdSocket is at the usual place: every node has a /run of its own.
const containerdSocket = "/run/containerd/containerd.sock"

// nodeStart bounds the start of a node's programs.
const nodeStart = 3 * time.Minute

// runNode is the first process of a node: a machine that ends, with all that runs there, when it ends.
func runNode(text string) int {
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		// The network's other end is made by who started this, and then says so.
		_, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		err = p.settle()
	}
	if err == nil {
		err = p.run()
	}
	fmt.Fprintln(os.Stderr, "node", p.Name, "ends:", err)
	return 1
}

// settle makes the node's file system and network.
func (p plan) settle() error {
	if err := settle(); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(p.Name)); err != nil {
		return err
	}
	if err := p.mounts(); err != nil {
		return err
	}
	commands := [][]string{
		{"ip", "addr", "add", p.Address + "/24", "dev", nodeLink},
		{"ip", "link", "set", nodeLink, "up"},
		{"ip", "route", "add", "default", "via", gateway},
	}
	return errors.Join(runAll(commands), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// mounts gives the node folders of its own wherever its programs write.
func (p plan) mounts() error {
	if err := syscall.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for _, m := range []struct{ from, to string }{
		{filepath.Join(p.Dir, "lib"), "/var/lib"}, {filepath.Join(p.Dir, "log"), "/var/log"}, {p.Storage, storageFolder},
	} {
		if err := errors.Join(os.MkdirAll(m.from, 0o755), os.MkdirAll(m.to, 0o755), syscall.Mount(m.from, m.to, "", syscall.MS_BIND|syscall.MS_REC, "")); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	return p.hideTunables()
}

// hideTunables lays files over the settings of the kernel that a kubelet changes, which are the machine's.
func (p plan) hideTunables() error {
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		setting := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(setting)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		file := filepath.Join(p.Dir, strings.ReplaceAll(name, "/", "-"))
		if err := errors.Join(err, os.WriteFile(file, value, 0o644)); err != nil {
			return err
		}
		if err := syscall.Mount(file, setting, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("hiding %s: %w", setting, err)
		}
	}
	return nil
}

// run starts containerd and the kubelet, and waits until one of them ends.
func (p plan) run() error {
	if err := p.writeFiles(); err != nil {
		return err
	}
	runtime, err := p.start(Containerd, "--config", p.file("containerd.toml"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeStart)
	defer cancel()
	if err := errors.Join(awaitSocket(ctx, containerdSocket), p.importImages()); err != nil {
		return err
	}
	agent, err := p.start(Kubelet, "--config="+p.file("kubelet.yaml"), "--kubeconfig="+p.file("kubeconfig"),
		"--hostname-override="+p.Name, "--node-ip="+p.Address)
	if err != nil {
		return err
	}
	return reap(map[int]string{runtime: Containerd, agent: Kubelet})
}

func (p plan) file(name string) string { return filepath.Join(p.Dir, name) }

// start starts one of the programs, which is not waited for here but in reap, and returns its number.
func (p plan) start(program string, args ...string) (int, error) {
	log, err := os.OpenFile(p.file(program+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }() // the process has it
	c := exec.Command(p.Programs[program], args...)
	c.Stdout, c.Stderr, c.Dir = log, log, p.Dir
	// containerd looks for its shim in the PATH.
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(p.Programs[Shim])+":"+os.Getenv("PATH"))
	if err := c.Start(); err != nil {
		return 0, err
	}
	return c.Process.Pid, nil
}

// importImages imports the images once.
func (p plan) importImages() error {
	done := p.file("imported")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	for _, archive := range p.Archives {
		if out, err := exec.Command(p.Programs[Ctr], "--namespace=k8s.io", "images", "import", archive).CombinedOutput(); err != nil {
			return fmt.Errorf("importing %s: %w: %s", archive, err, out)
		}
	}
	return os.WriteFile(done, nil, 0o644)
}

// reap waits for the processes whose parents have ended, until one of the node's own programs ends.
func reap(programs map[int]string) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if program, ours := programs[pid]; ours {
			return fmt.Errorf("%s has ended with code %d", program, status.ExitStatus())
		}
	}
}

func awaitSocket(ctx context.Context, path string) error {
	for {
		connection, err := net.Dial("unix", path)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", path, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runAll runs commands until one fails.
func runAll(commands [][]string) error {
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	return nil
}
