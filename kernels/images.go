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
