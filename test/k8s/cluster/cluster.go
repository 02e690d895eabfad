//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is a Kubernetes with three nodes, one of which is spare. Each node is a process in namespaces of its own, with a containerd and a kubelet
// below it, so that it can be lost as a machine is.
type Cluster struct {
	*Control
	home     home
	tools    Tools
	archives []string
	nodes    []*node
}

// node is a node's first process.
type node struct {
	plan
	link string // of the network, on this side
	cmd  *exec.Cmd
}

// volumes is how many claims a Cluster has storage for.
const volumes = 40

// StartCluster starts a cluster whose nodes hold an image, which lies in an OCI layout, and waits until its nodes are
// ready. Stop must be called.
func StartCluster(ctx context.Context, tools Tools, layout, pause string) (*Cluster, error) {
	h, err := newHome()
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	c := &Cluster{home: h, tools: tools, archives: []string{filepath.Join(h.dir, "pause.tar"), filepath.Join(h.dir, "image.tar")}}
	err = errors.Join(writePause(pause, c.archives[0]), writeLayout(layout, c.archives[1]))
	if err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	dir := filepath.Join(c.home.dir, "control")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := c.small().make(); err != nil {
		return err
	}
	network := [][]string{
		{"ip", "link", "add", "nodes", "type", "bridge"},
		{"ip", "addr", "add", gateway + "/24", "dev", "nodes"},
		{"ip", "link", "set", "nodes", "up"},
	}
	err = errors.Join(runAll(network), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	if err != nil {
		return err
	}
	if c.Control, err = StartControl(ctx, c.tools, dir); err != nil {
		return err
	}
	if err := c.startControllers(); err != nil {
		return err
	}
	for i, name := range nodeNames {
		c.nodes = append(c.nodes, c.newNode(i, name))
		if err := c.nodes[i].start(); err != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
	}
	if err := c.makeVolumes(ctx); err != nil {
		return err
	}
	return c.awaitNodes(ctx, nodeNames...)
}

// startControllers starts what makes pods of Jobs and Deployments, gives them nodes, and gives them names.
func (c *Cluster) startControllers() error {
	corefile := filepath.Join(c.dir, "Corefile")
	text := fmt.Sprintf(".:53 {\n  bind %s\n  errors\n  kubernetes cluster.local {\n    kubeconfig %s test\n  }\n}\n", gateway, c.Kubeconfig)
	if err := os.WriteFile(corefile, []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(
		c.Control.start(c.tools.Path(Controller), "--kubeconfig="+c.Kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file="+filepath.Join(c.dir, "accounts.key"), "--root-ca-file="+filepath.Join(c.dir, "certificates", "apiserver.crt"),
			"--node-monitor-period=2s", "--node-monitor-grace-period=16s"),
		c.Control.start(c.tools.Path(Scheduler), "--kubeconfig="+c.Kubeconfig, "--leader-elect=false", "--secure-port=0"),
		c.Control.start(c.tools.Path(CoreDNS), "-conf="+corefile))
}

func (c *Cluster) newNode(i int, name string) *node {
	p := plan{
		Name: name, Address: nodeAddress(i), Pods: podNetwork(i), Dir: filepath.Join(c.home.dir, name), Storage: c.storage(),
		Cgroup: c.home.cgroup() + "/" + name, Token: c.nodeToken(name), Archives: c.archives, Programs: map[string]string{},
	}
	for _, program := range []string{Containerd, Shim, Ctr, Kubelet} {
		p.Programs[program] = c.tools.Path(program)
	}
	return &node{plan: p, link: "to-" + name}
}

func (c *Cluster) storage() string { return filepath.Join(c.home.dir, "storage") }

// small is the disk of the one volume that may become full.
func (c *Cluster) small() smallDisk { return smallDisk(filepath.Join(c.storage(), "small")) }

// FillSmallVolume leaves no room on the volume of SmallClass, as somebody else does who writes there too.
func (c *Cluster) FillSmallVolume() error { return c.small().fill() }

// GrowSmallVolume makes that volume larger, as a provider does when a claim asks for more.
func (c *Cluster) GrowSmallVolume() error { return c.small().grow() }

// start starts a node; it goes on from what its disk holds.
func (n *node) start() error {
	if err := errors.Join(os.MkdirAll(n.Dir, 0o755), makeCgroup(n.Cgroup)); err != nil {
		return err
	}
	text, err := json.Marshal(n.plan)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(n.file("node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has it
	n.cmd = exec.Command("/proc/self/exe")
	n.cmd.Args[0] = os.Args[0]
	n.cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	ready, err := n.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	return errors.Join(n.connect(), ready.Close())
}

// connect gives a node's process its end of a cable to the network of nodes, and the others the way to its pods.
func (n *node) connect() error {
	return runAll([][]string{
		{"ip", "link", "add", n.link, "type", "veth", "peer", "name", nodeLink, "netns", strconv.Itoa(n.cmd.Process.Pid)},
		{"ip", "link", "set", n.link, "master", "nodes", "up"},
		{"ip", "route", "replace", n.Pods, "via", n.Address},
	})
}

// lose ends a node's processes, all at once.
func (n *node) lose() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended
	_ = n.cmd.Wait()         // it was killed
	n.cmd = nil
}

// Nodes are the names of the nodes.
func (c *Cluster) Nodes() []string { return slices.Clone(nodeNames) }

// LoseNode ends all processes of a node, as a power cut does.
func (c *Cluster) LoseNode(name string) error {
	n, err := c.node(name)
	if err == nil {
		n.lose()
	}
	return err
}

// ReturnNode starts a lost node, with the disk that it had, and waits until it is ready.
func (c *Cluster) ReturnNode(ctx context.Context, name string) error {
	n, err := c.node(name)
	if err == nil {
		err = n.start()
	}
	if err == nil {
		err = c.awaitNodes(ctx, name)
	}
	return err
}

func (c *Cluster) node(name string) (*node, error) {
	for _, n := range c.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node %s", name)
}

// KillPod sends SIGKILL to the processes of a pod's containers that run a program of the image, such as /andrea. uid is
// the pod's.
func (c *Cluster) KillPod(uid, program string) error {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	killed := 0
	for _, entry := range entries {
		groups, err := os.ReadFile(filepath.Join(entry, "cgroup"))
		line, readErr := os.ReadFile(filepath.Join(entry, "cmdline"))
		command, _, _ := strings.Cut(string(line), "\x00")
		if err != nil || readErr != nil || !strings.Contains(string(groups), "pod"+uid) || command != program {
			continue // among them those that have just ended
		}
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			return err
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("the pod %s has no process of %s", uid, program)
	}
	return nil
}

// SmallClass is the StorageClass of a single volume of little room, which can be filled.
const SmallClass = "small"

// makeVolumes makes storage for claims: folders that all nodes have, as a file server gives them. A node gives no folder
// of its own to a group, so everybody may write there.
func (c *Cluster) makeVolumes(ctx context.Context) error {
	var text strings.Builder
	text.WriteString(`{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "shared", "annotations":
{"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "kubernetes.io/no-provisioner"}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "` + SmallClass + `"},
"provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": true}`)
	for i := range volumes {
		name := fmt.Sprintf("volume-%d", i)
		dir := filepath.Join(c.storage(), name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o777)); err != nil {
			return err
		}
		text.WriteString(volumeOf(name, "shared"))
	}
	text.WriteString(volumeOf(filepath.Base(string(c.small())), SmallClass))
	_, err := c.kubectl(ctx, text.String(), "apply", "--server-side", "-f", "-")
	return err
}

// volumeOf is the object of a volume, which lies in the folder of its name.
func volumeOf(name, class string) string {
	return fmt.Sprintf("\n---\n"+`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %q}, "spec": {"capacity": {"storage": "20Gi"},
"accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": %q,
"hostPath": {"path": %q, "type": "Directory"}}}`, name, class, filepath.Join(storageFolder, name))
}

// awaitNodes waits until nodes are there and ready.
func (c *Cluster) awaitNodes(ctx context.Context, names ...string) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		out, err := c.kubectl(ctx, "", append([]string{"wait", "--for=condition=Ready", "--timeout=1s", "node"}, names...)...)
		if err == nil {
			return nil
		}
		select {
		case name := <-c.ended:
			c.ended <- name
			return fmt.Errorf("%s has ended\n%s", name, c.logs())
		case <-ctx.Done():
			return fmt.Errorf("the nodes %v are not ready: %s%w\n%s", names, out, err, c.nodeLogs())
		case <-ticker.C:
		}
	}
}

func (c *Cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Kubectl, append([]string{"--kubeconfig=" + c.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
	}
	return string(out), err
}

// nodeLogs is the end of what the nodes have said.
func (c *Cluster) nodeLogs() string {
	var all strings.Builder
	for _, n := range c.nodes {
		for _, name := range []string{"node", Containerd, Kubelet} {
			fmt.Fprintf(&all, "%s %s: ...%s\n", n.Name, name, tail(n.file(name+".log")))
		}
	}
	return all.String()
}

// tail is the end of a file.
func tail(path string) string {
	const end = 4000
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > end {
		_, _ = file.Seek(-end, io.SeekEnd) // else it is read from its beginning
	}
	data, _ := io.ReadAll(file) // what can be read
	return string(data)
}

// Stop ends the cluster, and takes away what the kernel does not.
func (c *Cluster) Stop() error {
	for _, n := range c.nodes {
		n.lose()
	}
	if c.Control != nil {
		c.Control.Stop()
	}
	// Network and disk outlive them as long as this process.
	_ = exec.Command("ip", "link", "delete", "nodes").Run() // it may not be there
	c.small().remove()
	return c.home.remove()
}
