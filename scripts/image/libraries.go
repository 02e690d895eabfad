package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"andrea/image"
)

// libraryFolders is where this machine's C library lies, the machine's own kind of processor first.
var libraryFolders = []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// driverNeeds are the libraries that NVIDIA's driver needs, which the container runtime mounts without them.
var driverNeeds = []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}

// cLibrary describes the C library among the files, as it tells its own version.
func cLibrary(files []image.File) image.Component {
	c := image.Component{Name: "glibc", Version: "NOASSERTION", Licence: "LGPL-2.1-or-later", Kind: "generic"}
	for _, f := range files {
		if m := cVersion.FindSubmatch(f.Data); m != nil {
			c.Version = string(m[1])
		}
	}
	return c
}

var cVersion = regexp.MustCompile(`GNU C Library \((?:[^()]* )?([0-9][^() ]*)\)`)

// libraries collects the shared libraries that a program and the driver need, and those that they need, and the loader.
func libraries(program []byte) ([]image.File, error) {
	binary, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	var files []image.File
	loader, err := interpreter(binary)
	if err == nil && loader != "" {
		files, err = addFile(files, loader)
	}
	if err != nil {
		return nil, err
	}
	needed, err := binary.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, name := range driverNeeds {
		if !slices.Contains(needed, name) {
			needed = append(needed, name)
		}
	}
	for i := 0; i < len(needed); i++ {
		path, err := findLibrary(needed[i])
		if err != nil {
			return nil, err
		}
		if files, err = addFile(files, path); err != nil {
			return nil, err
		}
		more, err := needs(path)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			if !slices.Contains(needed, name) {
				needed = append(needed, name)
			}
		}
	}
	return files, nil
}

// interpreter is the path of the program that loads a dynamic one; empty for a static one.
func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(path), "\x00"), err
		}
	}
	return "", nil
}

func needs(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return f.ImportedLibraries()
}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryFolders {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("the library %s is in none of %v", name, libraryFolders)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// addFile adds a file of this machine under its path, once.
func addFile(files []image.File, path string) ([]image.File, error) {
	if slices.ContainsFunc(files, func(f image.File) bool { return f.Path == path }) {
		return files, nil
	}
	data, err := os.ReadFile(path)
	return append(files, image.File{Path: path, Mode: 0o755, Data: data}), err
}
