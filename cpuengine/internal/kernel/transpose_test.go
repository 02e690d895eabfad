package kernel

import (
	"fmt"
	"testing"
)

// Every element arrives, and nothing is written between the rows.
func TestTranspose(t *testing.T) {
	for _, p := range Paths() {
		for _, rows := range []int{0, 1, 7, 8, 16, 33, 64} {
			for _, cols := range []int{0, 1, 8, 15, 24, 32, 72} {
				t.Run(fmt.Sprintf("%s/%dx%d", p, rows, cols), func(t *testing.T) {
					checkTranspose(t, p, rows, cols)
				})
			}
		}
	}
}

func checkTranspose(t *testing.T, p *Path, rows, cols int) {
	const gap = 3
	src := random(rows*(cols+gap) + 1)
	dst := make([]float32, cols*(rows+gap)+1)
	for i := range dst {
		dst[i] = canary
	}
	p.Transpose(dst, rows+gap, View(src, rows, cols, cols+gap))
	for k, got := range dst {
		want := float32(canary)
		if i, j := k%(rows+gap), k/(rows+gap); i < rows && j < cols {
			want = src[i*(cols+gap)+j]
		}
		if got != want {
			t.Fatalf("element %d is %v, want %v", k, got, want)
		}
	}
}

func TestTransposeRefusesViewsOutsideTheirMemory(t *testing.T) {
	x := make([]float32, 12)
	for name, call := range map[string]func(p *Path){
		"source":      func(p *Path) { p.Transpose(x, 4, View(x[:11], 4, 3, 3)) },
		"destination": func(p *Path) { p.Transpose(x[:11], 4, View(x, 4, 3, 3)) },
		"stride":      func(p *Path) { p.Transpose(x, 3, View(x, 4, 3, 3)) },
		"transposed":  func(p *Path) { p.Transpose(x, 4, View(x, 4, 3, 3).T()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was accepted")
				}
			}()
			call(Paths()[0])
		})
	}
}
