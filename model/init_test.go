package model

import (
	"math"
	"slices"
	"testing"
)

// spanning has tensors on both sides of a bucket's border, and one across it.
func spanning() Layout {
	c := DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 160, 4, 1, 700, 3000
	return NewLayout(c)
}

// initAll fills the whole vector, bucket by bucket in the given order.
func initAll(l Layout, seed uint64, order ...int) []float32 {
	x := make([]float32, l.Size)
	for i := range x {
		x[i] = float32(math.NaN()) // what is not written shows
	}
	for _, i := range order {
		lo, hi := l.Bucket(i)
		l.InitBucket(seed, i, x[lo:hi])
	}
	return x
}

func TestInitialWeightsDoNotDependOnTheOrderOfBuckets(t *testing.T) {
	l := spanning()
	if l.Buckets() != 2 {
		t.Fatalf("the layout has %d buckets", l.Buckets())
	}
	want := DigestOf(Weight, 0, initAll(l, 1, 0, 1))
	for _, order := range [][]int{{1, 0}, {1, 1, 0, 1}} {
		if got := DigestOf(Weight, 0, initAll(l, 1, order...)); got != want {
			t.Errorf("order %v gives %v, want %v", order, got, want)
		}
	}
	if DigestOf(Weight, 0, initAll(l, 2, 0, 1)) == want {
		t.Error("another seed gives the same weights")
	}
}

// An element depends on the seed, its tensor and its place in it alone: not on what
// lies before it, nor on where the buckets' borders are.
func TestInitialWeightsDoNotDependOnTheBorders(t *testing.T) {
	c := DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 160, 4, 1, 700, 1000
	small, large := NewLayout(c), spanning()
	if small.Buckets() != 1 {
		t.Fatalf("the small layout has %d buckets", small.Buckets())
	}
	a, b := initAll(small, 1, 0), initAll(large, 1, 0, 1)
	for i, tensor := range small.Tensors {
		same, place := a[tensor.Offset:tensor.End()], large.Tensors[i].Offset
		if !slices.Equal(same, b[place:place+len(same)]) {
			t.Errorf("%s has other weights in the larger model", tensor.Name)
		}
	}
	if head := large.Tensors[len(large.Tensors)-1]; head.Offset > BucketSize || head.Offset+1000*160 < BucketSize {
		t.Error("no border is compared")
	}
}

// Every tensor has the mean and the spread that it should, or is zero.
func TestInitialWeightsAreNormal(t *testing.T) {
	l := spanning()
	x := initAll(l, 7, 0, 1)
	for _, tensor := range l.Tensors {
		part := x[tensor.Offset:tensor.End()]
		if tensor.InitStd == 0 {
			if slices.ContainsFunc(part, func(f float32) bool { return math.Float32bits(f) != 0 }) {
				t.Errorf("%s does not start at +0", tensor.Name)
			}
			continue
		}
		n := float64(len(part))
		var mean, variance, fourth float64
		for _, f := range part {
			mean += float64(f) / n
		}
		for _, f := range part {
			square := (float64(f) - mean) * (float64(f) - mean)
			variance += square / n
			fourth += square * square / n
		}
		// Five standard deviations of each estimate for n normal values.
		std := tensor.InitStd
		if math.Abs(mean) > 5*std/math.Sqrt(n) {
			t.Errorf("%s: mean %v", tensor.Name, mean)
		}
		if ratio := variance / (std * std); math.Abs(ratio-1) > 5*math.Sqrt(2/n) {
			t.Errorf("%s: variance is %v of what it should be", tensor.Name, ratio)
		}
		if kurtosis := fourth / (variance * variance); math.Abs(kurtosis-3) > 5*math.Sqrt(24/n) {
			t.Errorf("%s: kurtosis %v, a normal distribution has 3", tensor.Name, kurtosis)
		}
	}
}

func TestTensorsAndNeighboursAreNotCorrelated(t *testing.T) {
	l := spanning()
	x := initAll(l, 1, 0, 1)
	part := func(name string) []float32 {
		tensor, _ := l.Tensor(name)
		return x[tensor.Offset:tensor.End()]
	}
	wq := part("layer0.attn_wq")
	for name, other := range map[string][]float32{
		"wk":         part("layer0.attn_wk"),
		"neighbours": wq[1:],
		"pairs":      wq[2:],
	} {
		var sum float64
		for i, f := range other {
			sum += float64(f) * float64(wq[i]) / (0.02 * 0.02)
		}
		if n := float64(len(other)); math.Abs(sum/n) > 5/math.Sqrt(n) {
			t.Errorf("%s: correlation %v", name, sum/n)
		}
	}
}

// The bits of the initial weights are part of what a seed means, on every machine.
func TestInitialWeightsGolden(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		want string
	}{
		{1, "bf4009fac7215d6c8f8c23a97b2952fb"},
		{math.MaxUint64, "06e5e1818e742ad8c29192d855ddacf3"},
	} {
		l := NewLayout(valid())
		if got := DigestOf(Weight, 0, initAll(l, c.seed, 0)).String(); got != c.want {
			t.Errorf("seed %d: digest %s, want %s", c.seed, got, c.want)
		}
	}
	first := initAll(NewLayout(valid()), 1, 0)[:4]
	if want := []float32{-0.107199825, -0.055396024, -0.027244607, 0.08011605}; !slices.Equal(first, want) {
		t.Errorf("the first weights are %v, want %v", first, want)
	}
}
