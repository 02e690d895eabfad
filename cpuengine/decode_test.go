package cpuengine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"andrea/cpuengine/internal/kernel"
	"andrea/enginetest"
	"andrea/model"
)

// What is read token by token gives the bits of the whole text, at every length on both
// sides of the tiles' borders, on every path, with every switch and any thread count.
func TestDecodingGivesTheBitsOfLogits(t *testing.T) {
	base := small()
	final := base
	final.FinalNorm, final.EmbedNorm, final.Activation = true, false, model.ReLU
	wide := base
	wide.DModel, wide.NHead, wide.Vocab = 96, 3, 131 // whole vectors
	for i, path := range kernel.Paths() {
		for name, c := range map[string]model.Config{"default": base, "switches": final, "wide": wide} {
			for _, threads := range []int{1, 3} {
				if path.String() == "portable" && (name != "default" || threads != 3) {
					continue // one case takes a second there
				}
				t.Run(fmt.Sprintf("%s/%s/threads=%d", path, name, threads), func(t *testing.T) {
					skipUnderRace(t, i)
					e := open(t, c, Options{Microbatch: 1, Slots: 1, Threads: threads, Path: path.String()})
					compareDecoding(t, e, 1)
					compareDecoding(t, e, keyTile-3) // the former text is forgotten
				})
			}
		}
	}
}

// compareDecoding reads a prompt at once and the rest of the context token by token.
func compareDecoding(t *testing.T, e *Engine, prompt int) {
	t.Helper()
	c := e.config
	tokens := enginetest.DrawBatch(c, 1, c.Context, uint64(prompt)).Tokens
	got, want := make([]float32, c.Vocab), make([]float32, c.Vocab)
	for n := prompt; n <= c.Context; n++ {
		var err error
		if n == prompt {
			err = e.Begin(tokens[:n], got)
		} else {
			err = e.Next(tokens[n-1], got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n > prompt+2 && n%queryTile > 2 {
			continue // Logits is slow: only around borders
		}
		if err := e.Logits(tokens[:n], n-1, want); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("after %d tokens, logit %d is %v, want %v", n, i, got[i], want[i])
			}
		}
	}
}

func TestDecodingRefusesBadArguments(t *testing.T) {
	c := small()
	c.Context = 4
	e := open(t, c, Options{Microbatch: 1, Slots: 1, Threads: 1})
	dst, full := make([]float32, c.Vocab), make([]uint32, c.Context)
	for _, call := range []struct {
		err  error
		want string
	}{
		{e.Next(0, dst), "call Begin first"},
		{e.Begin(nil, dst), "0 tokens"},
		{e.Begin(make([]uint32, c.Context+1), dst), "5 tokens"},
		{e.Begin(full, dst[1:]), "66 values"},
		{e.Begin([]uint32{0, 67}, dst), "token 1 has id 67"},
		{e.Begin(full, dst), ""},
		{e.Next(0, dst), "context of 4 tokens is full"},
		{e.Begin(full[:3], dst), ""},
		{e.Next(67, dst), "id 67"},
		{e.Next(0, dst[1:]), "66 values"},
		{e.Next(0, dst), ""}, // what was refused changed nothing
		{e.Next(0, dst), "context of 4 tokens is full"},
	} {
		if (call.err == nil) != (call.want == "") || call.err != nil && !strings.Contains(call.err.Error(), call.want) {
			t.Errorf("%v, want %q", call.err, call.want)
		}
	}
	e.Close()
	for _, err := range []error{e.Begin(full, dst), e.Next(0, dst)} {
		if err != errClosed {
			t.Errorf("closed: %v", err)
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	c := small()
	e := open(t, c, Options{Microbatch: 1, Slots: 1, Threads: 2})
	dst := make([]float32, c.Vocab)
	n := testing.AllocsPerRun(3, func() {
		if err := e.Begin([]uint32{1, 2, 3}, dst); err != nil {
			t.Fatal(err)
		}
		if err := e.Next(4, dst); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("reading allocates %v times", n)
	}
}

// BenchmarkDecode12M reads one token behind half a context, and all of it anew.
func BenchmarkDecode12M(b *testing.B) {
	c, err := model.Variant("12m")
	if err != nil {
		b.Fatal(err)
	}
	e := open(b, c, Options{Microbatch: 1, Slots: 1})
	tokens, dst := enginetest.DrawBatch(c, 1, c.Context, 1).Tokens[:c.Context/2], make([]float32, c.Vocab)
	b.Run("next", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			if e.decoder == nil || e.decoder.length == c.Context {
				if err := e.Begin(tokens, dst); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			if err := e.Next(1, dst); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("logits", func(b *testing.B) {
		for b.Loop() {
			if err := e.Logits(tokens, len(tokens)-1, dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}
