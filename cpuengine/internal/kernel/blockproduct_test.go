package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// needsBlocks skips a path that has no functions for blocks.
func needsBlocks(t *testing.T, p *Path) {
	t.Helper()
	if p.wide.vectors == 0 {
		t.Skipf("%s has no micro-kernels for blocks: attention goes over tiles there", p)
	}
}

// blockLines are offsets within data for as many lines as b fetches.
func blockLines(b *BlockProduct, data []float32) Ahead {
	lines := make([]int32, b.Lines())
	for i := range lines {
		lines[i] = int32(4 * (16 * i % len(data)))
	}
	return Ahead{Data: data, Lines: lines}
}

// TestBlockProductIsAChain compares every shape, layout and way of fetching with the definition.
func TestBlockProductIsAChain(t *testing.T) {
	for _, p := range Paths() {
		t.Run(p.String(), func(t *testing.T) {
			needsBlocks(t, p)
			r := rand.New(rand.NewPCG(31, 32))
			allRows, allK := []int{20, 30, 32, 64, 83, 128}, []int{1, 3, 4, 33, 64}
			if underRace { // the definition takes many times longer
				allRows, allK = []int{32, 83}, []int{3, 12}
			}
			for _, rows := range allRows {
				for _, cols := range []int{32, 64, 128} {
					for _, k := range allK {
						for i, fill := range []func() float32{uniform(r), awkward(r)} {
							checkBlockProduct(t, p, rows, cols, k, i == 0, fill)
							checkBlockProduct(t, p, rows, cols, k, i == 1, fill)
						}
					}
				}
			}
		})
	}
}

func checkBlockProduct(t *testing.T, p *Path, rows, cols, k int, transposed bool, fill func() float32) {
	t.Helper()
	product, ok := p.NewBlockProduct(rows, cols, k, transposed)
	if cols == 32 && rows%4 != 0 { // tiles of 12 and 8 rows
		if ok {
			t.Fatalf("%s multiplies into %d x %d", p, rows, cols)
		}
		return
	}
	if !ok {
		t.Fatalf("%s does not multiply into %d x %d", p, rows, cols)
	}
	a, b, c := matrix(rows, k, layout{transposed: transposed}, fill), matrix(k, cols, layout{}, fill), matrix(rows, cols, layout{}, fill)
	for _, add := range []bool{false, true} {
		want := clone(c)
		chain(want, a, b, add)
		for _, ahead := range []Ahead{{}, blockLines(product, b.Data)} {
			got := append(copyOf(c.Data), canary)
			product.Mul(got, a.Data, b.Data, add, ahead)
			what := fmt.Sprintf("%s, %d x %d x %d, transposed %t, add %t, %d lines", p, rows, cols, k, transposed, add, len(ahead.Lines))
			compare(t, what, got, append(copyOf(want.Data), canary))
		}
	}
}

func TestBlockProductsThatDoNotExist(t *testing.T) {
	for _, p := range Paths() {
		for _, s := range [][3]int{{0, 64, 4}, {64, 0, 4}, {64, 64, 0}, {7, 64, 4}, {64, 48, 4}, {64, 16, 4}, {-64, 64, 4}} {
			if _, ok := p.NewBlockProduct(s[0], s[1], s[2], false); ok {
				t.Errorf("%s multiplies %v", p, s)
			}
		}
	}
	if _, ok := portablePath().NewBlockProduct(64, 64, 32, false); ok {
		t.Error("the portable path has block products")
	}
}

func TestShortBlocksPanic(t *testing.T) {
	p := Paths()[0]
	needsBlocks(t, p)
	product, _ := p.NewBlockProduct(32, 64, 16, false)
	c, a, b, lines := make([]float32, 32*64), make([]float32, 32*16), make([]float32, 16*64), make([]int32, product.Lines())
	product.Mul(c, a, b, false, Ahead{Data: b, Lines: lines})
	for name, f := range map[string]func(){
		"a short C":   func() { product.Mul(c[1:], a, b, false, Ahead{}) },
		"a short A":   func() { product.Mul(c, a[1:], b, false, Ahead{}) },
		"a short B":   func() { product.Mul(c, a, b[1:], false, Ahead{}) },
		"a few lines": func() { product.Mul(c, a, b, false, Ahead{Data: b, Lines: lines[1:]}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
