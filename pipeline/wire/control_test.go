package wire

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andrea/model"
	"andrea/pipeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// samples has one message of every kind, with awkward numbers.
func samples() []pipeline.Message {
	nan, infinite := pipeline.Float(math.NaN()), pipeline.Float(math.Inf(-1))
	d := model.Digest{0x0123456789abcdef, 0xfedcba9876543210}
	return []pipeline.Message{
		pipeline.Hello{Protocol: 3, Class: "cpu-fp32-n1", Device: "Ångström & Söhne <4 cores>", Holds: true, Step: 25, Digest: d, Generation: 1 << 63, Ticket: 7},
		pipeline.Welcome{Job: "name: demo\nsteps: 5\n", Step: 25, Digest: d, Holders: []pipeline.WorkerID{"w-2", "w-3"}},
		pipeline.Wait{Reason: "the next step has to be confirmed first"},
		pipeline.Rejoin{Reason: "released"},
		pipeline.Refuse{Reason: "it speaks protocol 1"},
		pipeline.Joined{Step: 25, Digest: d},
		pipeline.Lease{Step: 26, Round: 2, Lo: 0, Hi: 8},
		pipeline.Cancel{Step: 26},
		pipeline.Answer{
			Step: 26, Round: 2, Lo: 0, Hi: 2, StateDigest: d, GradDigest: d, Seconds: 0.25, SumSquares: []pipeline.Float{0.1, nan},
			Lanes: []pipeline.LaneResult{{LossSum: 1e-300, Tokens: 1024, TokenDigest: d}, {LossSum: infinite, Tokens: 1024}},
		},
		pipeline.Commit{Step: 26, Action: "apply", RootDigest: d, Scale: 0.1, Hyper: model.Hyper{LR: 1e-3, Beta1: 0.9, OneMinusBeta1: 0.1, Beta2: 0.95, OneMinusBeta2: 0.05, Correction1: 0.1, Correction2: 0.05, Eps: 1e-8, Decay: 0.1}},
		pipeline.Applied{Step: 26, Digest: d},
		pipeline.Eval{Step: 26, Lo: 4, Hi: 6},
		pipeline.Evaluated{Step: 26, Lo: 4, Hi: 6, Sums: []pipeline.Float{7.5, nan}, Tokens: 2048, StateDigest: d},
		pipeline.Snapshot{Step: 26},
		pipeline.SnapshotTaken{Step: 26, Digest: d},
		pipeline.Heartbeat{Progress: math.MaxUint64},
		pipeline.Leaving{Reason: "SIGTERM"},
		pipeline.Finish{Complete: true, Reason: ""},
		pipeline.Failed{Reason: "out of memory"},
	}
}

// The bytes of protocol 3. Whoever changes them raises pipeline.Protocol.
func TestMessagesGolden(t *testing.T) {
	var b bytes.Buffer
	seen := map[reflect.Type]bool{}
	for _, m := range samples() {
		data, err := EncodeControl(Control{Generation: math.MaxUint64, Ticket: math.MaxInt64, Worker: "w-1", Incarnation: "0a", Message: m})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(data, '\n'))
		seen[reflect.TypeOf(m)] = true
	}
	if len(seen) != len(kinds) {
		t.Errorf("there are samples of %d kinds of %d", len(seen), len(kinds))
	}
	named := map[string]bool{}
	for _, k := range kinds {
		named[k.name] = true
	}
	if len(named) != len(kinds) {
		t.Errorf("%d kinds have %d names", len(kinds), len(named))
	}
	path := filepath.Join("testdata", fmt.Sprintf("protocol-%d.jsonl", pipeline.Protocol))
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the messages are other bytes:\n%s", b.Bytes())
	}
}

// drawControl draws any message of any kind with any values that a field can hold.
func drawControl(t *rapid.T) Control {
	template := rapid.SampledFrom(samples()).Draw(t, "kind")
	v := reflect.New(reflect.TypeOf(template)).Elem()
	drawValue(t, v)
	return Control{
		Generation: rapid.Uint64().Draw(t, "generation"), Ticket: rapid.Int64Min(0).Draw(t, "ticket"), Worker: pipeline.WorkerID(idStrings.Draw(t, "worker")),
		Incarnation: idStrings.Draw(t, "incarnation"), Message: v.Interface().(pipeline.Message),
	}
}

func drawValue(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawValue(t, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			drawValue(t, v.Index(i))
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 5).Draw(t, "length")
		if n == 0 {
			return // an empty one may come back as none
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			drawValue(t, v.Index(i))
		}
	case reflect.String:
		v.SetString(drawText(t, v.Type()))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32).Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(drawFloat(t, v.Type()))
	default:
		t.Fatalf("a message has a field of kind %v", v.Kind())
	}
}

func drawText(t *rapid.T, of reflect.Type) string {
	if of == reflect.TypeFor[pipeline.WorkerID]() {
		return idStrings.Draw(t, "id")
	}
	return rapid.String().Draw(t, "text")
}

var idStrings = rapid.StringMatching(`[a-z0-9-]{1,64}`)

// drawFloat draws a number; a pipeline.Float may be none.
func drawFloat(t *rapid.T, of reflect.Type) float64 {
	if of == reflect.TypeFor[pipeline.Float]() {
		return math.Float64frombits(rapid.Uint64().Draw(t, "float64 bits"))
	}
	return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "float64")
}

func TestEveryMessageRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawControl(t)
		data, err := EncodeControl(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeControl(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if again, err := EncodeControl(got); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%s came back as %s, %v", data, again, err)
		}
		// NaN differs from itself: everything else must be equal as values, too.
		if !bytes.Contains(data, []byte(`"NaN"`)) && !reflect.DeepEqual(got, c) {
			t.Fatalf("%+v came back as %+v", c, got)
		}
	})
}

func TestWhatIsNotOfTheProtocolIsRefused(t *testing.T) {
	good := `{"kind":"cancel","generation":1,"ticket":2,"worker":"w","incarnation":"1","body":{"step":3}}`
	if c, err := DecodeControl([]byte(good)); err != nil || c.Message != (pipeline.Cancel{Step: 3}) || c.Generation != 1 || c.Ticket != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown kind", `"cancel"`, `"bribe"`, `kind "bribe" is unknown`},
		{"no kind", `"kind":"cancel",`, ``, `kind "" is unknown`},
		{"unknown field", `"generation"`, `"extra":1,"generation"`, `unknown field "extra"`},
		{"unknown field of the body", `"step":3`, `"step":3,"lane":1`, `body of kind cancel: json: unknown field "lane"`},
		{"wrong type", `"step":3`, `"step":"3"`, "body of kind cancel"},
		{"fraction", `"step":3`, `"step":3.5`, "body of kind cancel"},
		{"null body", `{"step":3}`, `null`, "body of kind cancel: it is no JSON object"},
		{"list body", `{"step":3}`, `[]`, "body of kind cancel: it is no JSON object"},
		{"no body", `,"body":{"step":3}`, ``, "body of kind cancel: it is no JSON object"},
		{"trailing bytes", `}}`, `}} x`, "decoding a control message"},
		{"a second object", `}}`, `}}{}`, "there is more after the object"},
		{"cut", `}}`, `}`, "decoding a control message"},
		{"negative ticket", `"ticket":2`, `"ticket":-2`, "ticket -2 is negative"},
		{"a ticket that is too large", `"ticket":2`, `"ticket":9223372036854775808`, "decoding a control message"},
		{"negative generation", `"generation":1`, `"generation":-1`, "decoding a control message"},
		{"no worker", `"worker":"w"`, `"worker":""`, "is not made of a-z, 0-9 and -"},
		{"a worker that is a pattern", `"worker":"w"`, `"worker":"*"`, `worker "*"`},
		{"a worker with a dot", `"worker":"w"`, `"worker":"a.b"`, `worker "a.b"`},
		{"a worker with a line", `"worker":"w"`, `"worker":"w\n"`, `worker "w\n"`},
		{"a long worker", `"worker":"w"`, `"worker":"` + strings.Repeat("w", 65) + `"`, "is not made of"},
		{"an incarnation with a blank", `"incarnation":"1"`, `"incarnation":"1 "`, `incarnation "1 "`},
		{"null", good, `null`, "it is no JSON object"},
		{"nothing", good, ``, "it is no JSON object"},
		{"too large", `}}`, `}}` + strings.Repeat(" ", MaxControlBytes), "at most 1048576 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := strings.Replace(good, c.old, c.new, 1)
			got, err := DecodeControl([]byte(data))
			if err == nil || got != (Control{}) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 {
				t.Errorf("%+v, error %v, want %q", got, err, c.want)
			}
		})
	}
}

// The holders of a welcome become parts of subjects, as every worker's id does.
func TestHoldersThatAreNoWorkersAreRefused(t *testing.T) {
	for _, holder := range []string{"", "*", ">", "a.b", "w\n", "W", strings.Repeat("w", 65)} {
		welcome := pipeline.Welcome{Step: 3, Holders: []pipeline.WorkerID{"w-2", pipeline.WorkerID(holder)}}
		data, err := EncodeControl(Control{Generation: 1, Ticket: 1, Worker: "w", Incarnation: "1", Message: welcome})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := DecodeControl(data); err == nil || !strings.Contains(err.Error(), "body of kind welcome: holder ") {
			t.Errorf("holder %q: %+v, %v", holder, c, err)
		}
	}
}

type foreign struct{ pipeline.Message }

func TestWhatCannotBeEncodedIsAnError(t *testing.T) {
	for name, m := range map[string]pipeline.Message{
		"a foreign message": foreign{},
		"no message":        nil,
		"endless seconds":   pipeline.Answer{Seconds: math.NaN()},
		"an infinite scale": pipeline.Commit{Scale: float32(math.Inf(1))},
	} {
		if data, err := EncodeControl(Control{Worker: "w", Incarnation: "1", Message: m}); err == nil {
			t.Errorf("%s became %s", name, data)
		}
	}
}

// Whatever job NewPlan accepts, its largest messages can be read.
func TestTheLargestMessagesFit(t *testing.T) {
	long := pipeline.Float(-math.Nextafter(1e-300, 1))
	digest := model.Digest{math.MaxUint64, math.MaxUint64}
	answer := pipeline.Answer{Step: math.MaxInt64, Round: math.MaxInt, Hi: pipeline.MaxLanes, Seconds: -math.MaxFloat64, StateDigest: digest, GradDigest: digest}
	for range pipeline.MaxLanes {
		answer.Lanes = append(answer.Lanes, pipeline.LaneResult{LossSum: long, Tokens: math.MaxInt64, TokenDigest: digest})
	}
	for range model.MaxParameters / model.BucketSize {
		answer.SumSquares = append(answer.SumSquares, long)
	}
	evaluated := pipeline.Evaluated{Step: math.MaxInt64, Tokens: math.MaxInt64, StateDigest: digest}
	for range pipeline.MaxEvalWindows {
		evaluated.Sums = append(evaluated.Sums, long)
	}
	id := strings.Repeat("w", 64)
	welcome := pipeline.Welcome{Job: strings.Repeat("#", MaxControlBytes/2), Step: math.MaxInt64, Digest: digest}
	for range pipeline.MaxLanes + 1 {
		welcome.Holders = append(welcome.Holders, pipeline.WorkerID(id))
	}
	for _, m := range []pipeline.Message{answer, evaluated, welcome} {
		name := fmt.Sprintf("%T", m)
		data, err := EncodeControl(Control{Generation: math.MaxUint64, Ticket: math.MaxInt64, Worker: pipeline.WorkerID(id), Incarnation: id, Message: m})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeControl(data); err != nil {
			t.Errorf("%s has %d bytes: %v", name, len(data), err)
		}
	}
}

func FuzzDecodeControl(f *testing.F) {
	for _, m := range samples() {
		data, err := EncodeControl(Control{Generation: 1, Ticket: 2, Worker: "w", Incarnation: "1", Message: m})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"hello","body":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeControl(data)
		if err != nil {
			if c != (Control{}) {
				t.Fatalf("%+v with error %v", c, err)
			}
			return
		}
		again, err := EncodeControl(c)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", data, err)
		}
		d, err := DecodeControl(again)
		if third, _ := EncodeControl(d); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("%q became %q and then %q, %v", data, again, third, err)
		}
	})
}
