package wire

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The bytes of a frame as the package comment draws them; the checksum was computed
// by an independent program.
func TestFramesGolden(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{"payload", EncodeReply([]byte("abc")), []byte("AND1\x00\x00\x00\x00\x03\x00\x00\x00\x6d\x5f\xfb\x44abc")},
		{"refusal", EncodeRefusal(errors.New("no")), []byte("AND1\x01\x00\x00\x00\x02\x00\x00\x00\xc7\x33\x95\xb8no")},
		{"nothing", EncodeReply(nil), []byte("AND1\x00\x00\x00\x00\x00\x00\x00\x00\x8a\xb2\x28\x8c")},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

func TestFramesCarryPayloadsAndRefusals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		if got, err := DecodeReply(EncodeReply(payload)); err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("%q came back as %q, %v", payload, got, err)
		}
		reason := rapid.String().Draw(t, "reason")
		got, err := DecodeReply(EncodeRefusal(errors.New(reason)))
		var refusal Refusal
		if got != nil || !errors.As(err, &refusal) || refusal.Reason != reason || errors.Is(err, ErrDamaged) {
			t.Fatalf("%q came back as %q, %v", reason, got, err)
		}
	})
}

// No damage passes for a payload, nor for a refusal, after which nobody asks again.
func TestDamagedFramesAreDetected(t *testing.T) {
	damaged := func(what string, at int, data []byte) {
		t.Helper()
		got, err := DecodeReply(data)
		var refusal Refusal
		if got != nil || !errors.Is(err, ErrDamaged) || errors.As(err, &refusal) {
			t.Errorf("%s %d: %q, %v", what, at, got, err)
		}
	}
	for _, frame := range [][]byte{EncodeReply([]byte("some tokens")), EncodeRefusal(errors.New("a reason")), EncodeReply(nil)} {
		for bit := range 8 * len(frame) {
			flipped := bytes.Clone(frame)
			flipped[bit/8] ^= 1 << (bit % 8)
			damaged("bit", bit, flipped)
		}
		for length := range len(frame) {
			damaged("length", length, frame[:length])
		}
		damaged("with a byte more", 0, append(bytes.Clone(frame), 0))
		damaged("of zeros", 0, make([]byte, len(frame)))
	}
	damaged("another kind", 2, frame(2, []byte("x")))
}

func TestFloats(t *testing.T) {
	var room []byte // has what was framed before
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.Uint32()).Draw(t, "bits")
		x := make([]float32, len(words))
		for i, w := range words {
			x[i] = math.Float32frombits(w)
		}
		room = EncodeFloats(room, x)
		data, err := DecodeReply(room)
		if err != nil || len(data) != 4*len(x) {
			t.Fatalf("EncodeFloats wrote %q, %v", data, err)
		}
		got := make([]float32, len(x))
		if err := Floats(got, data); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if math.Float32bits(got[i]) != words[i] {
				t.Fatalf("element %d: %x, want %x", i, math.Float32bits(got[i]), words[i])
			}
		}
	})
	if data, _ := DecodeReply(EncodeFloats(nil, []float32{1, -2})); !bytes.Equal(data, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}) {
		t.Errorf("1, -2 are the bytes %x", data)
	}
	dst := []float32{7, 8}
	for _, n := range []int{0, 4, 7, 9, 12} {
		if err := Floats(dst, make([]byte, n)); !errors.Is(err, ErrDamaged) || !slices.Equal(dst, []float32{7, 8}) {
			t.Errorf("%d bytes for 2 elements: %v, %v", n, err, dst)
		}
	}
}

func TestRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int()
		tokens := TokensRequest{Validation: rapid.Bool().Draw(t, "validation"), Step: rapid.Int64().Draw(t, "step"), Lane: n.Draw(t, "lane"), Microbatch: n.Draw(t, "microbatch")}
		if got, err := DecodeRequest[TokensRequest](EncodeRequest(tokens)); err != nil || got != tokens {
			t.Fatalf("%+v came back as %+v, %v", tokens, got, err)
		}
		state := StateRequest{Step: rapid.Int64().Draw(t, "state"), Bucket: n.Draw(t, "bucket"), Part: n.Draw(t, "part"), Offset: n.Draw(t, "offset")}
		if got, err := DecodeRequest[StateRequest](EncodeRequest(state)); err != nil || got != state {
			t.Fatalf("%+v came back as %+v, %v", state, got, err)
		}
		grad := GradRequest{Step: rapid.Int64().Draw(t, "gradient"), Lo: n.Draw(t, "lo"), Hi: n.Draw(t, "hi"), Bucket: n.Draw(t, "bucket"), Offset: n.Draw(t, "offset")}
		if got, err := DecodeRequest[GradRequest](EncodeRequest(grad)); err != nil || got != grad {
			t.Fatalf("%+v came back as %+v, %v", grad, got, err)
		}
	})
	for _, c := range []struct{ data, want string }{
		{``, "it is no JSON object"}, {`null`, "it is no JSON object"}, {`[]`, "it is no JSON object"}, {`5`, "it is no JSON object"},
		{`{"step":1`, "decoding a request"}, {`{"step":1.5}`, "decoding a request"}, {`{"step":1}{}`, "there is more after the object"},
		{`{"step":1,"extra":2}`, `unknown field "extra"`}, {`{"step":99999999999999999999}`, "decoding a request"},
		{"{" + strings.Repeat(" ", maxRequestBytes) + "}", "it has 4098 bytes: at most 4096 are read"},
	} {
		refusesRequest[TokensRequest](t, c.data, c.want)
		refusesRequest[StateRequest](t, c.data, c.want)
		refusesRequest[GradRequest](t, c.data, c.want)
	}
}

func refusesRequest[R Request](t *testing.T, data, want string) {
	t.Helper()
	if r, err := DecodeRequest[R]([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%.30q: %+v, %v, want %q", data, r, err, want)
	}
}

// A request of one kind is none of another: nobody is served what was not asked for.
func TestRequestsAreOfOneKind(t *testing.T) {
	tokens, state, grad := string(EncodeRequest(TokensRequest{})), string(EncodeRequest(StateRequest{})), string(EncodeRequest(GradRequest{}))
	for _, data := range []string{state, grad} {
		refusesRequest[TokensRequest](t, data, "unknown field")
	}
	for _, data := range []string{tokens, grad} {
		refusesRequest[StateRequest](t, data, "unknown field")
	}
	for _, data := range []string{tokens, state} {
		refusesRequest[GradRequest](t, data, "unknown field")
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"validation":true,"step":1,"lane":2,"microbatch":3}`))
	f.Add([]byte(`{"step":1,"bucket":2,"part":3,"offset":4}`))
	f.Add([]byte(`{"step":1,"lo":2,"hi":3,"bucket":4,"offset":5}`))
	f.Add([]byte(`{"step":-9223372036854775808}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		survives[TokensRequest](t, data)
		survives[StateRequest](t, data)
		survives[GradRequest](t, data)
	})
}

// survives checks that a request that was read is the same after another journey.
func survives[R interface {
	comparable
	Request
}](t *testing.T, data []byte) {
	t.Helper()
	r, err := DecodeRequest[R](data)
	if err != nil {
		return
	}
	if again, err := DecodeRequest[R](EncodeRequest(r)); err != nil || again != r {
		t.Errorf("%+v came back as %+v, %v", r, again, err)
	}
}

func FuzzDecodeReply(f *testing.F) {
	f.Add(EncodeReply([]byte("payload")))
	f.Add(EncodeRefusal(errors.New("reason")))
	f.Add([]byte("AND1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, err := DecodeReply(data)
		var refusal Refusal
		switch {
		case err == nil && !bytes.Equal(EncodeReply(payload), data):
			t.Errorf("%q is accepted as %q", data, payload)
		case errors.As(err, &refusal) && !bytes.Equal(EncodeRefusal(errors.New(refusal.Reason)), data):
			t.Errorf("%q is accepted as the refusal %q", data, refusal.Reason)
		}
	})
}
