//go:build linux

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Template is the part of a pod template that a Node runs.
type Template struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		InitContainers []Container
		Containers     []Container
		Volumes        []Volume
	}
}

// Container is a container of a Template.
type Container struct {
	Name         string
	Args         []string
	Env          []Variable
	VolumeMounts []Mount
	Resources    struct{ Limits map[string]string }
}

// Variable is an environment variable, by its value or by what it comes from.
type Variable struct {
	Name      string
	Value     string
	ValueFrom struct {
		FieldRef         struct{ FieldPath string }
		ResourceFieldRef struct{ Resource string }
	}
}

// Mount is where a container finds a volume.
type Mount struct {
	Name      string
	MountPath string
	ReadOnly  bool
}

// Volume is a volume of a Template, of the kinds that are used.
type Volume struct {
	Name                  string
	Secret                struct{ SecretName string }
	ConfigMap             struct{ Name string }
	PersistentVolumeClaim struct{ ClaimName string }
}

// Node runs pods as processes: with the image's files as a read-only root, the image's user, the volumes mounted, and no
// capabilities. Their network is the process's own, so a pod's name for another is an entry in /etc/hosts.
type Node struct {
	Image Image
	Dir   string
	Hosts []string // names that lead to loopback
	// Files returns the files of a "secret" or "configmap".
	Files func(kind, name string) (map[string][]byte, error)
}

// Pod is a pod's main container.
type Pod struct {
	Name   string
	root   string
	mounts []string // in the order of mounting
	cmd    *exec.Cmd
	out    output
	ended  chan struct{}
}

// output is what a process prints, to be read while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// Output is what the pod has printed up to now.
func (p *Pod) Output() string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.buf.String()
}

// Start runs the init containers of a template one after the other, then its container. change, unless nil, changes
// the arguments of that.
func (n Node) Start(name string, t Template, change func([]string) []string) (*Pod, error) {
	p := &Pod{Name: name, root: filepath.Join(n.Dir, name), ended: make(chan struct{})}
	fail := func(err error) (*Pod, error) { return nil, fmt.Errorf("starting the pod %s: %w", name, err) }
	volumes, err := n.volumes(p, t)
	if err != nil {
		return fail(err)
	}
	for _, c := range t.Spec.InitContainers {
		cmd, err := n.command(p, t, c, volumes)
		if err != nil {
			return fail(err)
		}
		if err := cmd.Run(); err != nil {
			return fail(fmt.Errorf("%s: %w: %s", c.Name, err, p.Output()))
		}
	}
	c := t.Spec.Containers[0]
	if change != nil {
		c.Args = change(c.Args)
	}
	if p.cmd, err = n.command(p, t, c, volumes); err != nil {
		return fail(err)
	}
	if err := p.cmd.Start(); err != nil {
		return fail(err)
	}
	go func() {
		_ = p.cmd.Wait() // the code tells
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed when the pod has ended.
func (p *Pod) Ended() <-chan struct{} { return p.ended }

// Code is the exit code of a pod that has ended, or 128 and the number of the signal that it died of.
func (p *Pod) Code() int {
	<-p.ended
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// Signal sends a signal.
func (p *Pod) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// volumes makes a folder for every volume: of a claim one for all pods, else one for this pod.
func (n Node) volumes(p *Pod, t Template) (map[string]string, error) {
	folders := map[string]string{}
	for _, v := range t.Spec.Volumes {
		dir := filepath.Join(p.root, "volumes", v.Name)
		var files map[string][]byte
		var err error
		switch {
		case v.PersistentVolumeClaim.ClaimName != "":
			dir = filepath.Join(n.Dir, "claims", v.PersistentVolumeClaim.ClaimName)
		case v.Secret.SecretName != "":
			files, err = n.Files("secret", v.Secret.SecretName)
		case v.ConfigMap.Name != "":
			files, err = n.Files("configmap", v.ConfigMap.Name)
		}
		if err != nil {
			return nil, err
		}
		folders[v.Name] = dir
		if err := n.fill(dir, files); err != nil {
			return nil, err
		}
	}
	return folders, nil
}

// fill makes a volume that the image's group may use, and writes files that it may read.
func (n Node) fill(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o770); err != nil {
		return err
	}
	errs := []error{os.Chown(dir, 0, int(n.Image.GID)), os.Chmod(dir, 0o770)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		errs = append(errs, os.WriteFile(path, files[name], 0o440), os.Chown(path, 0, int(n.Image.GID)))
	}
	return errors.Join(errs...)
}

// command is a container's process, whose root is mounted.
func (n Node) command(p *Pod, t Template, c Container, volumes map[string]string) (*exec.Cmd, error) {
	root := filepath.Join(p.root, c.Name)
	if err := n.mountRoot(p, root, c, volumes); err != nil {
		return nil, err
	}
	values := map[string]string{}
	cmd := &exec.Cmd{Path: n.Image.Entrypoint[0], Dir: "/", Env: slices.Clone(n.Image.Env), Stdout: &p.out, Stderr: &p.out}
	for _, v := range c.Env {
		values[v.Name] = v.value(p.Name, t, c)
		cmd.Env = append(cmd.Env, v.Name+"="+values[v.Name])
	}
	cmd.Args = slices.Clone(n.Image.Entrypoint)
	for _, arg := range c.Args {
		for name, value := range values {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		cmd.Args = append(cmd.Args, arg)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: n.Image.UID, Gid: n.Image.GID}}
	return cmd, nil
}

// value is what a kubelet would make of a variable.
func (v Variable) value(pod string, t Template, c Container) string {
	switch field, resource := v.ValueFrom.FieldRef.FieldPath, v.ValueFrom.ResourceFieldRef.Resource; {
	case field == "metadata.name":
		return pod
	case field != "":
		label := strings.TrimSuffix(strings.TrimPrefix(field, "metadata.labels['"), "']")
		return t.Metadata.Labels[label]
	case resource != "":
		return c.Resources.Limits[strings.TrimPrefix(resource, "limits.")]
	}
	return v.Value
}

// mountRoot lays a writable folder over the image, mounts the volumes there, and makes the root read-only.
func (n Node) mountRoot(p *Pod, root string, c Container, volumes map[string]string) error {
	upper, work := root+".upper", root+".work"
	errs := []error{os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755), os.MkdirAll(root, 0o755)}
	errs = append(errs, os.MkdirAll(filepath.Join(upper, "proc"), 0o755), os.MkdirAll(filepath.Join(upper, "etc"), 0o755),
		os.WriteFile(filepath.Join(upper, "etc", "hosts"), []byte("127.0.0.1 localhost "+strings.Join(n.Hosts, " ")+"\n"), 0o644))
	for _, m := range c.VolumeMounts {
		errs = append(errs, os.MkdirAll(filepath.Join(upper, m.MountPath), 0o755))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", n.Image.Root, upper, work)
	if err := p.mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	if err := p.mount("proc", filepath.Join(root, "proc"), "proc", syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, m := range c.VolumeMounts {
		if err := p.bind(volumes[m.Name], filepath.Join(root, m.MountPath), m.ReadOnly); err != nil {
			return fmt.Errorf("mounting the volume %s: %w", m.Name, err)
		}
	}
	return syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
}

func (p *Pod) bind(from, to string, readOnly bool) error {
	if err := p.mount(from, to, "", syscall.MS_BIND, ""); err != nil || !readOnly {
		return err
	}
	return syscall.Mount("", to, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
}

// mount mounts, and remembers it.
func (p *Pod) mount(from, to, kind string, flags uintptr, options string) error {
	err := syscall.Mount(from, to, kind, flags, options)
	if err == nil {
		p.mounts = append(p.mounts, to)
	}
	return err
}

// Remove kills a pod that still runs, and takes its mounts away, so that its files can be deleted.
func (p *Pod) Remove() error {
	_ = p.Signal(syscall.SIGKILL) // it may have ended
	<-p.ended
	var errs []error
	for _, mount := range slices.Backward(p.mounts) {
		errs = append(errs, syscall.Unmount(mount, 0))
	}
	return errors.Join(errs...)
}
