package pool

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestEachCallsEveryPieceOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		p := New(workers)
		if p.Workers() != workers {
			t.Fatalf("Workers() = %d, want %d", p.Workers(), workers)
		}
		for _, n := range []int{0, 1, 2, 3, 100, 1000} {
			calls := make([]atomic.Int32, n)
			inside := make([]atomic.Int32, workers)
			p.Each(n, func(w, i int) {
				if inside[w].Add(1) != 1 {
					t.Errorf("worker %d called twice at a time", w)
				}
				calls[i].Add(1)
				inside[w].Add(-1)
			})
			for i := range calls {
				if c := calls[i].Load(); c != 1 {
					t.Fatalf("workers %d, n %d: piece %d called %d times", workers, n, i, c)
				}
			}
		}
		p.Close()
	}
}

func TestEachOrdersMemory(t *testing.T) {
	p := New(3)
	defer p.Close()
	data := make([]int, 64) // plain memory: the race detector checks the hand-over
	for round := range 200 {
		p.Each(len(data), func(_, i int) { data[i] += round })
	}
	for i, v := range data {
		if v != 199*200/2 {
			t.Fatalf("data[%d] = %d", i, v)
		}
	}
}

func TestEachOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := New(4)
	defer p.Close()
	var sum atomic.Int64
	for range 50 {
		p.Each(10, func(_, i int) { sum.Add(int64(i)); runtime.Gosched() })
	}
	if sum.Load() != 50*45 {
		t.Fatalf("sum = %d", sum.Load())
	}
}

func TestEachAfterParking(t *testing.T) {
	p := New(3)
	defer p.Close()
	for range 3 {
		for p.parked.Load() != 2 {
			runtime.Gosched()
		}
		// All three workers must take part: each piece waits for the others.
		var here atomic.Int32
		p.Each(3, func(_, _ int) {
			for here.Add(1); here.Load() < 3; {
				runtime.Gosched()
			}
		})
	}
}

func TestCallerParksForSlowWorker(t *testing.T) {
	p := New(2)
	defer p.Close()
	var started atomic.Bool
	p.Each(2, func(w, _ int) {
		if w == 0 {
			for !started.Load() {
				runtime.Gosched()
			}
			return
		}
		started.Store(true)
		for p.parked.Load() == 0 { // until the caller has given up spinning
			runtime.Gosched()
		}
	})
}

func TestPanicReachesCaller(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		p := New(workers)
		for bad := range 8 {
			got := func() (v any) {
				defer func() { v = recover() }()
				p.Each(8, func(_, i int) {
					if i == bad {
						panic(bad)
					}
				})
				return nil
			}()
			if got != bad {
				t.Fatalf("workers %d: recovered %v, want %d", workers, got, bad)
			}
		}
		ran := false
		p.Each(1, func(_, _ int) { ran = true })
		if !ran {
			t.Fatal("pool unusable after a panic")
		}
		p.Close()
	}
}

func TestNestedEachIsRefused(t *testing.T) {
	p := New(2)
	defer p.Close()
	defer func() {
		if recover() == nil {
			t.Fatal("nested Each was accepted")
		}
	}()
	p.Each(2, func(_, _ int) { p.Each(1, func(_, _ int) {}) })
}

func TestEachAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	var sum atomic.Int64
	f := func(_, i int) { sum.Add(int64(i)) }
	if a := testing.AllocsPerRun(100, func() { p.Each(16, f) }); a != 0 {
		t.Fatalf("%v allocations per Each", a)
	}
}

func TestCloseEndsWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	p := New(5)
	p.Each(10, func(_, _ int) {})
	p.Close()
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}

func BenchmarkEach(b *testing.B) {
	p := New(runtime.GOMAXPROCS(0))
	defer p.Close()
	f := func(_, _ int) {}
	for b.Loop() {
		p.Each(16, f)
	}
}
