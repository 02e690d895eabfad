// Command image builds the program and packs it into a container image, as an OCI layout on disk. It needs no
// container engine:
//
//	go run ./scripts/image --out /tmp/andrea-image --ref registry.example.com/andrea:v1
//	skopeo copy --all oci:/tmp/andrea-image:v1 docker://registry.example.com/andrea:v1
//
// With --cuda the program has the engine for NVIDIA GPUs, and the image the C library that it needs from this
// machine; the driver is mounted by the container runtime.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"andrea/image"
)

func main() {
	var b builder
	out := flag.String("out", "", "folder to write the OCI layout to; it must not exist")
	flag.StringVar(&b.reference, "ref", "andrea:dev", "NAME:TAG of the image")
	platforms := flag.String("arch", "amd64,arm64", "processors, joined by commas")
	flag.BoolVar(&b.cuda, "cuda", false, "with the engine for NVIDIA GPUs, for this machine's processor alone")
	flag.Parse()
	b.architectures = strings.Split(*platforms, ",")
	if err := b.build(*out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// builder builds one image.
type builder struct {
	reference     string
	architectures []string
	cuda          bool
}

func (b builder) build(out string) error {
	if out == "" {
		return fmt.Errorf("no folder is given: name one with --out")
	}
	if b.cuda {
		b.architectures = []string{runtime.GOARCH}
	}
	i := image.Image{
		Entrypoint: []string{"/andrea"}, Reference: b.reference,
		Labels: map[string]string{"org.opencontainers.image.title": "andrea", "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	for _, architecture := range b.architectures {
		p, err := b.platform(architecture)
		if err != nil {
			return fmt.Errorf("building for linux/%s: %w", architecture, err)
		}
		i.Platforms = append(i.Platforms, p)
	}
	layout, err := image.Build(i)
	if err != nil {
		return err
	}
	if err := write(layout, out); err != nil {
		return fmt.Errorf("writing the layout to %s: %w", out, err)
	}
	for _, p := range i.Platforms {
		fmt.Printf("linux/%s  %d bytes compressed\n", p.Architecture, layout.Sizes[p.Architecture])
	}
	fmt.Printf("%s@%s\n", b.reference, layout.Digest)
	return nil
}

// platform builds the program for a processor, and collects what lies beside it.
func (b builder) platform(architecture string) (image.Platform, error) {
	p := image.Platform{Architecture: architecture, Env: []string{"PATH=/", "HOME=/tmp"}}
	program, err := b.program(architecture)
	if err != nil {
		return p, err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return p, err
	}
	p.Files = []image.File{
		{Path: "/andrea", Mode: 0o755, Data: program},
		{Path: "/LICENSE", Mode: 0o644, Data: licence},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/none\nandrea:x:65532:65532:andrea:/tmp:/none\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nandrea:x:65532:\n")},
		{Path: "/tmp", Mode: 0o1777},
	}
	var beside []image.Component
	if b.cuda {
		// Runtimes mount the driver in one of these folders, or in one where the C library looks by itself.
		p.Env = append(p.Env, "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/lib64")
		libraries, err := libraries(program)
		if err != nil {
			return p, err
		}
		p.Files, beside = append(p.Files, libraries...), append(beside, cLibrary(libraries))
	}
	bill, err := image.SBOM(program, "Apache-2.0", beside...)
	p.Files = append(p.Files, image.File{Path: "/sbom.spdx.json", Mode: 0o644, Data: bill})
	return p, err
}

// driverBuild makes what a build with CUDA needs, and runs it.
const driverBuild = "cudaengine/internal/driver/build.sh"

// program compiles the program; nothing of the machine or the checkout gets into it.
func (b builder) program(architecture string) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "andrea-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	path := filepath.Join(scratch, "andrea")
	command, cgo, tags := []string{"go"}, "CGO_ENABLED=0", ""
	if b.cuda { // names are resolved by Go's own code, or the C library would load more libraries for it
		command, cgo, tags = []string{driverBuild, "go"}, "CGO_ENABLED=1", "cuda,netgo,osusergo"
	}
	command = append(command, "build", "-tags="+tags, "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, "./cmd/andrea")
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), "GOFLAGS=", "GOOS=linux", "GOARCH="+architecture, "GOAMD64=v1", "GOARM64=v8.0", cgo)
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, text)
	}
	return os.ReadFile(path)
}

// write writes a layout to a folder that it makes.
func write(l image.Layout, out string) error {
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	for name, data := range l.Files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
