// Command gen writes the assembly of package kernel for amd64 and arm64, and its Go
// declarations. Run it by go generate in that package. AVX-512 and AVX2 come from the same
// descriptions, so that the two cannot differ in the order of their operations; NEON has its own.
package main

import (
	"fmt"
	"os"
)

func main() {
	for name, text := range files() {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "write generated code: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// files returns the contents of what gen writes, by name relative to the kernel package.
func files() map[string]string {
	asm, decl := generate()
	neonAsm, neonDecl := generateNeon()
	return map[string]string{
		"kernel_amd64.s": asm, "kernel_amd64.go": decl,
		"kernel_arm64.s": neonAsm, "kernel_arm64.go": neonDecl,
	}
}

// generate returns the assembly and the declarations for amd64.
func generate() (asm, decl string) {
	e := newEmitter()
	e.tables()
	for _, v := range []isa{avx512, avx2} {
		e.isa = v
		for vectors := 1; vectors <= 3; vectors++ {
			e.panel(vectors)
		}
		if v.masks() {
			for _, t := range leanTiles {
				e.lean(t)
			}
			for _, t := range blockTiles() {
				e.blockPanel(t)
			}
			e.columns()
		}
		e.packColumns()
		e.packStrip()
		e.transpose()
		e.peak()
		e.elementwise()
		e.reductions()
		e.sumSquares()
		e.scaleRows()
		e.copyRows()
		e.dotRows()
		e.largestTile()
		e.softmaxTile()
		e.softmaxBackwardTile()
		if v.masks() {
			e.mix()
			e.adamWMix()
		}
	}
	return e.asm.String(), e.decl.String()
}
