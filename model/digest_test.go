package model

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawFloats draws any float32 bits, NaN and -0 included.
func drawFloats(t *rapid.T, least int) []float32 {
	words := rapid.SliceOfN(rapid.Uint32(), least, 40).Draw(t, "bits")
	x := make([]float32, len(words))
	for i, w := range words {
		x[i] = math.Float32frombits(w)
	}
	return x
}

func drawKind(t *rapid.T) Kind {
	return rapid.SampledFrom([]Kind{Weight, FirstMoment, SecondMoment, Gradient}).Draw(t, "kind")
}

func TestDigestsOfDisjointRangesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, x := drawKind(t), drawFloats(t, 0)
		start := rapid.IntRange(0, MaxParameters-len(x)).Draw(t, "start")
		cut := rapid.IntRange(0, len(x)).Draw(t, "cut")
		a, b := DigestOf(kind, start, x[:cut]), DigestOf(kind, start+cut, x[cut:])
		if whole := DigestOf(kind, start, x); a.Add(b) != whole || b.Add(a) != whole {
			t.Fatalf("%v + %v is not %v", a, b, whole)
		}
	})
}

// Any one flipped bit, any two exchanged elements, another place or another kind
// changes both halves of the digest.
func TestDigestsSeeEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, x := drawKind(t), drawFloats(t, 2)
		start := rapid.IntRange(0, 1<<20).Draw(t, "start")
		d := DigestOf(kind, start, x)
		differs := func(what string, e Digest) {
			if e[0] == d[0] || e[1] == d[1] {
				t.Fatalf("%s is not seen: %v and %v", what, d, e)
			}
		}
		differs("another start", DigestOf(kind, start+1, x))
		differs("another kind", DigestOf((kind+1)%4, start, x))
		i := rapid.IntRange(0, len(x)-1).Draw(t, "element")
		bit := rapid.IntRange(0, 31).Draw(t, "bit")
		before := x[i]
		x[i] = math.Float32frombits(math.Float32bits(before) ^ 1<<bit)
		differs("a flipped bit", DigestOf(kind, start, x))
		x[i] = before
		j := (i + 1) % len(x)
		if math.Float32bits(x[i]) != math.Float32bits(x[j]) {
			x[i], x[j] = x[j], x[i]
			differs("an exchange", DigestOf(kind, start, x))
		}
	})
}

func TestStateDigestSeparatesItsParts(t *testing.T) {
	a, b, c := []float32{1, 2}, []float32{3, 4}, []float32{5, 6}
	d := StateDigestOf(3, a, b, c)
	if want := DigestOf(Weight, 3, a).Add(DigestOf(FirstMoment, 3, b)).Add(DigestOf(SecondMoment, 3, c)); d != want {
		t.Errorf("digest %v, want %v", d, want)
	}
	for name, e := range map[string]Digest{
		"moments exchanged": StateDigestOf(3, a, c, b),
		"weights exchanged": StateDigestOf(3, b, a, c),
		"another place":     StateDigestOf(4, a, b, c),
	} {
		if d == e {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestTokenDigests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint32(), 1, 40).Draw(t, "ids")
		start := rapid.IntRange(0, 1<<30).Draw(t, "start")
		cut := rapid.IntRange(0, len(ids)).Draw(t, "cut")
		whole := TokenDigestOf(start, ids)
		if got := TokenDigestOf(start, ids[:cut]).Add(TokenDigestOf(start+cut, ids[cut:])); got != whole {
			t.Fatalf("the parts add up to %v, want %v", got, whole)
		}
		if TokenDigestOf(start+1, ids) == whole {
			t.Fatal("another place is not seen")
		}
		i := rapid.IntRange(0, len(ids)-1).Draw(t, "token")
		ids[i] ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
		if TokenDigestOf(start, ids) == whole {
			t.Fatal("another id is not seen")
		}
	})
}

// Digests lie in journals and checkpoints: their values are part of the formats. An
// independent program computed these from the doc comments.
func TestDigestGolden(t *testing.T) {
	x := []float32{0, 1, -2.5, float32(math.Inf(1)), math.Float32frombits(0x7fc00001)}
	for _, c := range []struct{ name, got, want string }{
		{"empty", DigestOf(Weight, 0, nil).String(), "00000000000000000000000000000000"},
		{"weights", DigestOf(Weight, 0, x).String(), "9dbf398e4ee6e74576bad172d0a673cd"},
		{"gradient", DigestOf(Gradient, 1<<20, x).String(), "35ce18f482c42a82253ac54ddd4fbb3a"},
		{"tokens", TokenDigestOf(7, []uint32{0, 256, 65535, 1 << 20}).String(), "d058cec0a72b08f6eb6c7c644cce7f22"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestDigestsAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Digest{rapid.Uint64().Draw(t, "first"), rapid.Uint64().Draw(t, "second")}
		text := d.String()
		if e, err := ParseDigest(text); err != nil || e != d || len(text) != 32 {
			t.Fatalf("%s reads as %v, %v", text, e, err)
		}
		data, err := json.Marshal(d)
		var e Digest
		if err != nil || json.Unmarshal(data, &e) != nil || e != d || string(data) != `"`+text+`"` {
			t.Fatalf("JSON %s reads as %v (%v)", data, e, err)
		}
	})
	for _, text := range []string{"", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("0", 34), strings.Repeat("g", 32), strings.Repeat("0", 1<<20)} {
		d := Digest{1, 2}
		if err := d.UnmarshalText([]byte(text)); err == nil || len(err.Error()) > 120 {
			t.Errorf("%.40q reads as %v, %v", text, d, err)
		}
	}
}

func FuzzParseDigest(f *testing.F) {
	f.Add("0123456789abcdef0123456789abcdef")
	f.Add("0123456789ABCDEF0123456789ABCDEF")
	f.Add("0123456789abcdef0123456789abcde")
	f.Add("0123456789abcdef 123456789abcdef")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDigest(text)
		if err == nil && d.String() != strings.ToLower(text) {
			t.Errorf("%q reads as %v", text, d)
		}
		if err != nil && d != (Digest{}) {
			t.Errorf("%q: %v with an error", text, d)
		}
	})
}

// The sum of squares has one order, so it is compared bit for bit with a sum written
// out, and for its size with exact arithmetic.
func TestSumSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 1000, 4099} {
		x := make([]float32, n)
		partial := make([]float64, 8)
		exact := new(big.Float).SetPrec(400)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			partial[i%8] += float64(float64(x[i]) * float64(x[i]))
			f := new(big.Float).SetPrec(400).SetFloat64(float64(x[i]))
			exact.Add(exact, f.Mul(f, f))
		}
		even := (partial[0] + partial[4]) + (partial[2] + partial[6])
		odd := (partial[1] + partial[5]) + (partial[3] + partial[7])
		got := SumSquares(x)
		if math.Float64bits(got) != math.Float64bits(even+odd) {
			t.Errorf("%d elements: %v, want %v", n, got, even+odd)
		}
		want, _ := exact.Float64()
		if math.Abs(got-want) > 1e-13*want {
			t.Errorf("%d elements: %v, exactly %v", n, got, want)
		}
	}
	for _, f := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		if got := SumSquares([]float32{1, 2, f, 3}); !math.IsNaN(got) && !math.IsInf(got, 1) {
			t.Errorf("%v is lost: %v", f, got)
		}
	}
}
