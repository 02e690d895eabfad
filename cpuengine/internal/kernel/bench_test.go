package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"andrea/cpuengine/internal/pool"
)

// peakRate measures the register-only FMA peak of all workers of the pool, in FLOP/s.
func peakRate(path *Path, p *pool.Pool) float64 {
	iterations := 1 << 15
	if path.name == "portable" {
		iterations = 1 << 10
	}
	best := 0.0
	for range 10 {
		start := time.Now()
		p.Each(4*p.Workers(), func(_, _ int) { path.PeakFMA(iterations) })
		flops := 4 * float64(p.Workers()) * float64(iterations) * float64(path.peakFlops)
		best = max(best, flops/time.Since(start).Seconds())
	}
	return best
}

// share runs f, of that many FLOPs, and reports its rate and its share of the peak around it.
func share(b *testing.B, path *Path, p *pool.Pool, flops float64, f func()) {
	peak := peakRate(path, p)
	f()
	best := 0.0
	for b.Loop() {
		start := time.Now()
		f()
		best = max(best, flops/time.Since(start).Seconds())
	}
	peak = max(peak, peakRate(path, p))
	mean := flops * float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(best/1e9, "GFLOP/s-best")
	b.ReportMetric(100*best/peak, "%peak-best")
	b.ReportMetric(100*mean/peak, "%peak-mean")
}

func random(n int) []float32 {
	r := rand.New(rand.NewPCG(7, 8))
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32() - 0.5
	}
	return x
}

// benchmarkPaths runs f for each path with a pool of all processors.
func benchmarkPaths(b *testing.B, f func(b *testing.B, path *Path, p *pool.Pool)) {
	for _, path := range Paths() {
		b.Run(path.String(), func(b *testing.B) {
			p := pool.New(runtime.GOMAXPROCS(0))
			defer p.Close()
			f(b, path, p)
		})
	}
}

// BenchmarkMicro multiplies operands that stay in the caches: the micro-kernels alone.
func BenchmarkMicro(b *testing.B) {
	benchmarkPaths(b, func(b *testing.B, path *Path, _ *pool.Pool) {
		one := pool.New(1)
		for _, k := range []int{32, 128, 384} {
			for vectors := 1; vectors <= 3; vectors++ {
				width, blocks := vectors*path.floats, 64/path.rows
				x, y, c := random(64*k), random(k*width), random(64*width)
				flops := 2 * 64 * float64(k) * float64(width)
				const repeat = 64 // or the clock is measured
				b.Run(fmt.Sprintf("%dx%d/k%d", path.rows, width, k), func(b *testing.B) {
					share(b, path, one, repeat*flops, func() {
						for range repeat {
							path.panel[vectors-1](blocks, k, x, k, 1, path.rows*k, y, width, c, width, true)
						}
					})
				})
			}
		}
	})
}

// BenchmarkMul multiplies the shapes of the 12m and 120m variants: forward, input gradient
// and weight gradient of M tokens.
func BenchmarkMul(b *testing.B) {
	shapes := []struct{ in, out int }{{384, 384}, {384, 1152}, {384, 1536}, {1536, 384}, {384, 2305}, {768, 2304}, {768, 8449}}
	benchmarkPaths(b, func(b *testing.B, path *Path, p *pool.Pool) {
		g := NewGemm(path, p)
		const m = 1024
		for _, s := range shapes {
			x, y := View(random(m*s.in), m, s.in, s.in), View(random(m*s.out), m, s.out, s.out)
			w := View(random(s.out*s.in), s.out, s.in, s.in)
			flops := 2 * m * float64(s.in) * float64(s.out)
			for _, way := range []struct {
				name    string
				c, a, b Matrix
				add     bool
			}{{"forward", y, x, w.T(), false}, {"dX", x, y, w, false}, {"dW", w, y.T(), x, true}} {
				b.Run(fmt.Sprintf("%dx%d/%s", s.in, s.out, way.name), func(b *testing.B) {
					share(b, path, p, flops, func() {
						clear(way.c.Data) // bound the values over many rounds
						g.Mul(way.c, way.a, way.b, way.add)
					})
				})
			}
		}
	})
}

// BenchmarkMulLocal multiplies the tiles of attention, all workers at once.
func BenchmarkMulLocal(b *testing.B) {
	shapes := []struct {
		m, k, n int
		ta, tb  bool
	}{{128, 32, 128, false, true}, {128, 128, 32, false, false}, {128, 128, 32, true, false}, {128, 64, 128, false, true}, {128, 128, 64, false, false}, {64, 32, 64, false, true}}
	benchmarkPaths(b, func(b *testing.B, path *Path, p *pool.Pool) {
		g := NewGemm(path, p)
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%dx%dx%d/ta=%t/tb=%t", s.m, s.k, s.n, s.ta, s.tb), func(b *testing.B) {
				const heads = 12 // rows of Q, K and V of all heads lie side by side
				tile := func(rows, cols int) Matrix { return View(random(rows*cols*heads), rows, cols, cols*heads) }
				x, y := tile(s.m, s.k), tile(s.k, s.n)
				if s.ta {
					x = tile(s.k, s.m).T()
				}
				if s.tb {
					y = tile(s.n, s.k).T()
				}
				out := make([]Matrix, p.Workers())
				for i := range out {
					out[i] = tile(s.m, s.n)
				}
				const repeat = 64
				flops := repeat * 2 * float64(s.m) * float64(s.k) * float64(s.n)
				share(b, path, p, flops, func() {
					p.Each(repeat, func(w, _ int) { g.MulLocal(w, out[w], x, y, false) })
				})
			})
		}
	})
}

// BenchmarkVector runs the vector functions on rows in cache, in nanoseconds an element.
func BenchmarkVector(b *testing.B) {
	for _, path := range Paths() {
		for _, n := range []int{64, 1024} {
			dst, x, y, z := random(n), random(n), random(n), random(n)
			for _, c := range vectorCases {
				b.Run(fmt.Sprintf("%s/%s/%d", path, c.name, n), func(b *testing.B) {
					for b.Loop() {
						c.run(path, dst, x, y, z, 0.5, 0.25)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
				})
			}
		}
	}
}
