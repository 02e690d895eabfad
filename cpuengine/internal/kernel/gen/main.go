// Command gen writes the assembly of package kernel for amd64, and its Go declarations. Run
// it by go generate in that package. AVX-512 and AVX2 come from the same descriptions, so
// that the two cannot differ in the order of their operations.
package main

import (
	"fmt"
	"os"
)

// The files that gen writes, relative to the kernel package.
const (
	assemblyFile = "kernel_amd64.s"
	declarations = "kernel_amd64.go"
)

func main() {
	asm, decl := generate()
	for name, text := range map[string]string{assemblyFile: asm, declarations: decl} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "write generated code: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// generate returns the contents of the two files.
func generate() (asm, decl string) {
	e := newEmitter()
	e.tables()
	for _, v := range []isa{avx512, avx2} {
		e.isa = v
		for vectors := 1; vectors <= 3; vectors++ {
			e.panel(vectors)
		}
		e.packColumns()
		e.packStrip()
		e.transpose()
		e.peak()
		e.elementwise()
		e.reductions()
		if v.masks() {
			e.mix()
		}
	}
	return e.asm.String(), e.decl.String()
}
