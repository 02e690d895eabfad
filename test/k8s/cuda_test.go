//go:build linux

package k8s

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"andrea/test/k8s/cluster"
)

// The image for GPUs starts with its own user; without a driver it says so; a driver that needs what NVIDIA's needs is
// loaded from wherever runtimes mount it. This driver is none, which is said, too.
func TestImageForGPUs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an image is entered by root alone: run as root")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("the image for GPUs is built with gcc: install it")
	}
	scratch := t.TempDir()
	layout, root, driver := filepath.Join(scratch, "layout"), t.TempDir(), filepath.Join(scratch, "libcuda.so.1")
	build(t, "../..", "run", "./scripts/image", "--cuda", "--out", layout)
	image, err := cluster.Unpack(layout, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if bill, err := os.ReadFile(filepath.Join(root, "sbom.spdx.json")); err != nil || !strings.Contains(string(bill), "pkg:generic/glibc@") {
		t.Errorf("the bill of materials has no C library: %v", err)
	}
	inImage(t, image, 0, "cannot open shared object file", "doctor")
	inImage(t, image, 2, "install NVIDIA's driver", "worker", "--engine", "cuda", "--nats", "nats://127.0.0.1:1", "--run", "none")
	compile := exec.Command("gcc", "-shared", "-o", driver, "-x", "c", "/dev/null", "-Wl,--no-as-needed", "-lm", "-ldl", "-lpthread", "-lrt")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling a driver: %v\n%s", err, out)
	}
	multiarch := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	for _, folder := range []string{"usr/lib/" + multiarch, "usr/lib64", "usr/local/nvidia/lib64"} {
		dir := filepath.Join(root, folder)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		mounted := filepath.Join(dir, "libcuda.so.1")
		if err := os.Link(driver, mounted); err != nil {
			t.Fatal(err)
		}
		if said := inImage(t, image, 0, "GPU", "doctor"); strings.Contains(said, "cannot open") || !strings.Contains(said, "cuInit") {
			t.Errorf("a driver in %s: %s", folder, said)
		}
		if err := os.Remove(mounted); err != nil {
			t.Fatal(err)
		}
	}
}

// inImage runs the program of an unpacked image with the image's files, user and variables, and nothing else. It must end
// with a code, and say something.
func inImage(t *testing.T, image cluster.Image, code int, what string, args ...string) string {
	t.Helper()
	c := exec.Command(image.Entrypoint[0], args...)
	c.Dir, c.Env = "/", image.Env
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: image.Root, Credential: &syscall.Credential{Uid: image.UID, Gid: image.GID}}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	if c.ProcessState.ExitCode() != code || !strings.Contains(string(out), what) {
		t.Errorf("andrea %v: exit %d, want %d and %q\n%s", args, c.ProcessState.ExitCode(), code, what, out)
	}
	return string(out)
}
