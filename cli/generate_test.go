package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"andrea/launch"
	"andrea/model"
	"andrea/vfs"
)

func TestGenerate(t *testing.T) {
	p := trained(t, 1)
	args := []string{"generate", "--run", "demo", "--prompt", "the río ", "--tokens", "40", "--temperature", "1"}
	r := p.run("", args...)
	if r.code != 0 || !strings.HasPrefix(r.stdout, "the río ") || !strings.HasSuffix(r.stdout, "\n") || !utf8.ValidString(r.stdout) {
		t.Fatalf("exit %d, %q\n%s", r.code, r.stdout, r.stderr)
	}
	if again := p.run("", args...); again.stdout != r.stdout {
		t.Errorf("the same command wrote %q, then %q", r.stdout, again.stdout)
	}
	one := decode[generated](t, p.run("", "generate", "--checkpoint", newest+"/", "--prompt", "the río ", "--tokens", "40", "--temperature", "1", "--json"))
	if one.Step != 20 || one.Checkpoint != newest || one.Tokens < 1 || one.Tokens > 40 || (one.End == endTokens) != (one.Tokens == 40) || one.Prompt != "the río " {
		t.Errorf("as JSON: %+v", one)
	}
	if want := "the río " + safely(one.Text) + "\n"; r.stdout != want {
		t.Errorf("the text is %q, as JSON %q", r.stdout, want)
	}
	if other := p.run("", append(args, "--seed", "2")...); other.stdout == r.stdout {
		t.Error("another seed gives the same text")
	}
	none := p.run("", append(args, "--tokens", "0")...)
	if none.code != 0 || none.stdout != "the río \n" {
		t.Errorf("no tokens: exit %d, %q", none.code, none.stdout)
	}
}

// safely is a text as it is shown on a terminal.
func safely(text string) string {
	var b strings.Builder
	s := textStream{out: &b, safe: true}
	_, _ = s.write([]byte(text)), s.flush() // a strings.Builder takes everything
	return b.String()
}

func TestGeneratePassesOverDamage(t *testing.T) {
	p := trained(t, 1)
	file := newest + "/model.safetensors"
	p.write(file, flip(p.read(file), 5000))
	r := p.run("", "generate", "--run", "runs/demo", "--tokens", "3", "--json")
	if g := decode[generated](t, r); r.code != 0 || g.Step != 15 || !strings.Contains(r.stderr, "step 20 is passed over") || !strings.Contains(r.stderr, "model.safetensors") {
		t.Errorf("exit %d, %+v\n%s", r.code, g, r.stderr)
	}
	if r := p.run("", "generate", "--checkpoint", newest, "--tokens", "3"); r.code != 2 || !strings.Contains(r.stderr, "model.safetensors") || r.stdout != "" {
		t.Errorf("the damaged one itself: exit %d, %q\n%s", r.code, r.stdout, r.stderr)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "runs/demo/checkpoints")); err != nil {
		t.Fatal(err)
	}
	if r := p.run("", "generate", "--run", "runs/demo"); r.code != 2 || !strings.Contains(r.stderr, "no intact checkpoint") {
		t.Errorf("without checkpoints: exit %d\n%s", r.code, r.stderr)
	}
}

func TestGenerateRefuses(t *testing.T) {
	p := trained(t, 1)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--checkpoint"},
		{[]string{"--run", "demo", "--checkpoint", newest}, "--checkpoint"},
		{[]string{"--run", "nowhere"}, "nowhere"},
		{[]string{"--checkpoint", "runs/demo/checkpoints/step-00000007"}, "step-00000007"},
		{[]string{"--checkpoint", "text"}, "not named after a step"},
		{[]string{"--run", "demo", "--temperature", "-1"}, "temperature"},
		{[]string{"--run", "demo", "--temperature", "NaN"}, "temperature"},
		{[]string{"--run", "demo", "--top-k", "-1"}, "top_k"},
		{[]string{"--run", "demo", "--tokens", "-1"}, "max_tokens"},
		{[]string{"--run", "demo", "prompt"}, "prompt"},
	} {
		if r := p.run("", append([]string{"generate", "--json"}, c.args...)...); r.code != 2 || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%v: exit %d, want 2 and %q\n%s%s", c.args, r.code, c.want, r.stdout, r.stderr)
		}
	}
}

// interrupting is an engine whose user loses patience after some tokens.
type interrupting struct {
	model.Engine
	signals chan<- os.Signal
	after   int
}

func (e *interrupting) Logits(tokens []uint32, position int, dst []float32) error {
	if e.after--; e.after == 0 {
		e.signals <- os.Interrupt
	}
	return e.Engine.Logits(tokens, position, dst)
}

// The text has no end but the signal.
func TestGenerateEndsWithASignal(t *testing.T) {
	p := trained(t, 1)
	for _, asJSON := range []bool{false, true} {
		engine, err := launch.CPU("", 1)
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		o := outside{fs: vfs.OS, engine: engine, stdout: &stdout, stderr: &stderr, signals: make(chan os.Signal, 2)}
		o.engine.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
			e, err := engine.Open(c, microbatch, slots)
			return &interrupting{e, o.signals, 5}, err
		}
		args := []string{"generate", "--run", filepath.Join(p.dir, "runs/demo"), "--tokens", "1000000000"}
		if asJSON {
			args = append(args, "--json")
		}
		// A model of 20 steps may end its document first, so several seeds are tried.
		code := 0
		for seed := '1'; code == 0 && seed <= '9'; seed++ {
			stdout.Reset()
			code = execute(context.Background(), o, append(args, "--seed", string(seed)))
		}
		if code != 130 || !strings.HasSuffix(stdout.String(), "\n") || strings.Contains(stderr.String(), "andrea:") {
			t.Errorf("exit %d, %q\n%s", code, stdout.String(), stderr.String())
		}
		if asJSON {
			if g := decode[generated](t, result{stdout: stdout.String()}); g.End != endInterrupted || g.Tokens < 4 {
				t.Errorf("as JSON: %+v", g)
			}
		}
	}
}

func TestTextStream(t *testing.T) {
	for _, c := range []struct {
		parts []string
		safe  bool
		want  []string // what is passed on after each part, then at the end
	}{
		{[]string{"a", "b"}, true, []string{"a", "b", ""}},
		{[]string{"\xc3", "\xa4b"}, true, []string{"", "äb", ""}},
		{[]string{"x\xf0\x9f", "\x98", "\x80"}, true, []string{"x", "", "😀", ""}},
		{[]string{"\xf0\x9f"}, true, []string{"", "\uFFFD\uFFFD"}},
		{[]string{"\xf0\x9f", "z"}, true, []string{"", "\uFFFD\uFFFDz", ""}},
		{[]string{"\xff\xfe"}, true, []string{"\uFFFD\uFFFD", ""}},
		{[]string{"a\x1b[2J\n\t\r\x00"}, true, []string{"a\uFFFD[2J\n\t\r\uFFFD", ""}},
		{[]string{"a\x1b\u0085"}, false, []string{"a\x1b\u0085", ""}},
		{[]string{"\u0085"}, true, []string{"\uFFFD", ""}},
	} {
		var out bytes.Buffer
		s := textStream{out: &out, safe: c.safe}
		for i, want := range c.want {
			out.Reset()
			err := s.flush
			if i < len(c.parts) {
				err = func() error { return s.write([]byte(c.parts[i])) }
			}
			if err := err(); err != nil || out.String() != want {
				t.Errorf("%q, part %d: passed on %q, want %q (%v)", c.parts, i, out.String(), want, err)
			}
		}
	}
	broken := textStream{out: failing{}}
	if err := broken.write([]byte("a")); err == nil {
		t.Error("the output's error is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// However a text is cut into tokens, the same characters are passed on, each whole.
func TestTextStreamCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "\xc3", "\xa9", "€", "\xe2\x82", "\xac", "\xf0\x9f\x98", "\xff", "\n"})).Draw(t, "parts")
		whole := strings.Join(parts, "")
		var out strings.Builder
		s := textStream{out: &out}
		for _, part := range parts {
			before := out.Len()
			if err := s.write([]byte(part)); err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(out.String()[before:]) {
				t.Fatalf("passed on %q", out.String()[before:])
			}
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(whole)); out.String() != want {
			t.Fatalf("%q became %q, want %q", whole, out.String(), want)
		}
	})
}
