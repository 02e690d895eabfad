package cpuengine

import (
	"slices"
	"testing"

	"andrea/cpuengine/internal/kernel"
)

func TestWorkbenchComputes(t *testing.T) {
	if names := Paths(); names[len(names)-1] != "portable" || len(names) != len(kernel.Paths()) {
		t.Errorf("paths %v", names)
	}
	for _, path := range Paths() {
		w, err := NewWorkbench(2, path)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if one := w.FMA(1); one <= 0 || w.FMA(7) != 7*one || w.FMAs(3) != 3*one*peakPieces*2 || w.Path() != path || w.Threads() != 2 {
			t.Errorf("%s: %d FLOPs, %d threads, path %s", path, one, w.Threads(), w.Path())
		}
		src, dst := make([]float32, 2*memoryPiece+3), make([]float32, 2*memoryPiece+3)
		for i := range src {
			src[i] = float32(i % 1000)
		}
		if w.Copy(dst, src); !slices.Equal(dst, src) {
			t.Errorf("%s: the copy differs", path)
		}
		w.Read(src)
		// [[1 2]]·[[3 4] [5 6] [7 8]]ᵀ and the gradients where dy = y.
		l := NewLinear(1, 2, 3)
		copy(l.W, []float32{3, 4, 5, 6, 7, 8})
		copy(l.X, []float32{1, 2})
		w.Forward(l)
		w.InputGradient(l)
		w.WeightGradient(l)
		w.WeightGradient(l)
		if !slices.Equal(l.Y[:3], []float32{11, 17, 23}) || !slices.Equal(l.DX, []float32{279, 330}) || !slices.Equal(l.DW, []float32{22, 44, 34, 68, 46, 92}) {
			t.Errorf("%s: %v %v %v", path, l.Y, l.DX, l.DW)
		}
	}
	for _, threads := range []int{-1, MaxThreads + 1} {
		if _, err := NewWorkbench(threads, ""); err == nil {
			t.Errorf("%d threads are accepted", threads)
		}
	}
	if _, err := NewWorkbench(1, "mmx"); err == nil {
		t.Error("path mmx is accepted")
	}
}
