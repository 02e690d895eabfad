//go:build cuda && cgo && linux

package cudaengine

import (
	"math"
	"testing"

	"andrea/enginetest"
	"andrea/kernels"
	"andrea/model"
)

// Gradients of weights whose sums are cut into parts agree with those of the plain engine.
func TestLongSumsInParts(t *testing.T) {
	c := small()
	c.DModel, c.NHead, c.NLayer, c.Context = 8, 1, 1, 1024
	if kernels.Parts(c.DModel, c.DModel, c.Context) == 1 {
		t.Fatal("the shape is too small for parts")
	}
	b, bucket := patterned(c, 1, 3), make([]float32, model.NewLayout(c).Size)
	var gradients [2][]float32
	for i, e := range []model.Engine{open(t, c, Options{Microbatch: 1, Slots: 1, Precision: FP32}), enginetest.NewPlain(c, 1, 1)} {
		load(t, e, c, enginetest.DrawState(c, 1))
		if _, err := e.Accumulate(0, b); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadGrad(0, 0, bucket); err != nil {
			t.Fatal(err)
		}
		gradients[i] = append([]float32(nil), bucket...)
	}
	for _, tensor := range model.NewLayout(c).Tensors {
		var distance, size float64
		for i := tensor.Offset; i < tensor.End(); i++ {
			distance = max(distance, math.Abs(float64(gradients[0][i])-float64(gradients[1][i])))
			size = max(size, math.Abs(float64(gradients[1][i])))
		}
		if !(distance <= 1e-4*size) {
			t.Errorf("%s: the gradients differ by %.3g, they are up to %.3g", tensor.Name, distance, size)
		}
	}
}
