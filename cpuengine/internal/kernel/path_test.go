package kernel

import (
	"strings"
	"testing"
)

func TestPathsEndWithPortable(t *testing.T) {
	paths := Paths()
	if last := paths[len(paths)-1]; last.String() != "portable" {
		t.Fatalf("the last path is %s", last)
	}
	for _, p := range paths {
		found, err := PathByName(p.String())
		if err != nil || found.String() != p.String() {
			t.Errorf("PathByName(%q) = %v, %v", p, found, err)
		}
	}
}

func TestPathByNameNamesTheChoices(t *testing.T) {
	p, err := PathByName("sse2")
	if p != nil || err == nil || !strings.Contains(err.Error(), `"sse2"`) || !strings.Contains(err.Error(), "portable") {
		t.Fatalf("PathByName = %v, %v", p, err)
	}
}

func TestPeakFMACounts(t *testing.T) {
	for _, p := range Paths() {
		one := p.PeakFMA(1)
		if one <= 0 || p.PeakFMA(10) != 10*one || p.PeakFMA(0) != 0 || p.PeakFMA(-1) != 0 {
			t.Errorf("%s: one iteration is %d FLOPs", p, one)
		}
	}
}

func TestCutCoversColumnsOnce(t *testing.T) {
	for _, floats := range []int{4, 8, 16} {
		for n := 1; n < 400; n++ {
			c := newCut(n, floats)
			next := 0
			for i := range c.panels {
				p := c.at(i)
				if p.start != next || p.used < 1 || p.used > p.width || p.vectors < 1 || p.vectors > 3 || p.width != p.vectors*floats {
					t.Fatalf("floats %d columns %d: panel %d = %+v", floats, n, i, p)
				}
				if i < c.panels-1 && p.used != p.width {
					t.Fatalf("floats %d columns %d: panel %d is padded", floats, n, i)
				}
				next += p.used
			}
			if next != n {
				t.Fatalf("floats %d: %d of %d columns", floats, next, n)
			}
		}
	}
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct{ total, limit, unit, want int }{
		{1, 512, 16, 16}, {512, 512, 16, 512}, {513, 512, 16, 272}, {1024, 512, 16, 512}, {2305, 768, 48, 624}, {768, 768, 48, 768},
	} {
		if got := evenly(c.total, c.limit, c.unit); got != c.want {
			t.Errorf("evenly(%d, %d, %d) = %d, want %d", c.total, c.limit, c.unit, got, c.want)
		}
	}
	for total := 1; total < 4000; total++ {
		if got := evenly(total, 768, 48); got > 768 || got%48 != 0 {
			t.Fatalf("evenly(%d) = %d", total, got)
		}
	}
}
