package kernels

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// images are PTX for compute capability 8.0 and all later ones.
//
//go:embed ptx/*.ptx
var images embed.FS

// Capability is the lowest compute capability that the images run on, as 10·major + minor.
const Capability = 80

// Modules lists the images.
func Modules() []string {
	var names []string
	seen := map[string]bool{}
	for _, k := range table {
		if !seen[k.Module] {
			seen[k.Module] = true
			names = append(names, k.Module)
		}
	}
	return names
}

// Image returns the PTX of a module of Modules, text that the driver compiles for its GPU when it loads it.
func Image(module string) (string, error) {
	text, err := fs.ReadFile(images, "ptx/"+module+".ptx")
	if err != nil {
		return "", fmt.Errorf("reading the image of the kernels: %q: there is no such module: the modules are %s", module, strings.Join(Modules(), ", "))
	}
	return string(text), nil
}

// Sources returns the SHA-256 of an image's sources and compiler flags in hexadecimal, which build.sh writes into its
// first line: it identifies what a GPU computes.
func Sources(module string) (string, error) {
	text, err := Image(module)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(text, "\n")
	_, digest, found := strings.Cut(line, " sources ")
	if !found || len(digest) != 64 {
		return "", fmt.Errorf("reading the image of the kernels: %q: its first line %.80q names no sources: run kernels/build.sh", module, line)
	}
	return digest, nil
}
