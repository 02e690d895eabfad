package checkpoints

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"andrea/model"
)

func tiny() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 4, 2, 1, 6, 11
	return c
}

// split takes a file's first bytes apart.
func split(t *testing.T, b []byte) string {
	t.Helper()
	n, err := HeaderLength(b[:LengthBytes], int64(len(b)))
	if err != nil || int(n) != len(b)-LengthBytes {
		t.Fatalf("length %d of %d bytes, %v", n, len(b), err)
	}
	return string(b[LengthBytes:])
}

func TestHeaderOfOneTensor(t *testing.T) {
	b, err := MarshalHeader([]HeaderTensor{{Name: "w", Shape: []int{2, 3}, Begin: 0, End: 24}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`
	want += strings.Repeat(" ", 7-(len(want)+7)%8)
	if got := split(t, b); got != want {
		t.Fatalf("header\n%q\nwant\n%q", got, want)
	}
}

func TestModelAndOptimizerTensors(t *testing.T) {
	layout := model.NewLayout(tiny())
	weights, moments := ModelTensors(layout), OptimizerTensors(layout)
	n := len(layout.Tensors)
	if len(weights) != n || len(moments) != 2*n {
		t.Fatalf("%d and %d tensors of %d", len(weights), len(moments), n)
	}
	size := int64(4 * layout.Size)
	for i, tensor := range layout.Tensors {
		w, m, v := weights[i], moments[i], moments[n+i]
		if w.Name != tensor.Name || m.Name != "m."+tensor.Name || v.Name != "v."+tensor.Name {
			t.Errorf("tensor %d is called %q, %q, %q", i, w.Name, m.Name, v.Name)
		}
		if w.Begin != int64(4*tensor.Offset) || m.Begin != w.Begin || v.Begin != size+w.Begin || v.End != size+w.End {
			t.Errorf("tensor %d lies at %d, %d, %d", i, w.Begin, m.Begin, v.Begin)
		}
	}
	for _, tensors := range [][]HeaderTensor{weights, moments} {
		b, err := MarshalHeader(tensors)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseHeader([]byte(split(t, b)), tensors[len(tensors)-1].End)
		if err != nil || !reflect.DeepEqual(got, tensors) {
			t.Errorf("comes back as %v, %v", got, err)
		}
	}
}

func TestLargestModelsHeaderIsReadable(t *testing.T) {
	c := tiny()
	c.NLayer = model.MaxLayers
	if _, err := MarshalHeader(OptimizerTensors(model.NewLayout(c))); err != nil {
		t.Fatal(err)
	}
}

func TestHeaderLengthRefusals(t *testing.T) {
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for name, c := range map[string]struct {
		first []byte
		file  int64
		want  string
	}{
		"empty":          {nil, 0, "has 0 bytes"},
		"short":          {[]byte("abc"), 3, "has 3 bytes"},
		"huge":           {length(math.MaxUint64), 1 << 40, "at most"},
		"above the cap":  {length(MaxHeaderBytes + 8), 1 << 40, "at most"},
		"zero":           {length(0), 100, "multiple of 8"},
		"not aligned":    {length(12), 100, "multiple of 8"},
		"past the end":   {length(96), 103, "only 95 follow"},
		"text of a HTML": {[]byte("<!DOCTYP"), 1000, "another kind of file"},
	} {
		if _, err := HeaderLength(c.first, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestHeaderRefusals(t *testing.T) {
	const meta = `{"__metadata__":{"format":"pt"}`
	tensor := func(name string, begin, end int) string {
		return fmt.Sprintf(`,"%s":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}`, name, (end-begin)/4, begin, end)
	}
	valid := meta + tensor("a", 0, 4) + tensor("b", 4, 8) + `}`
	valid += strings.Repeat(" ", 7-(len(valid)+7)%8)
	if _, err := ParseHeader([]byte(valid), 8); err != nil {
		t.Fatalf("the valid header: %v", err)
	}
	for name, c := range map[string]struct{ header, want string }{
		"empty":             {"", "no JSON object"},
		"array":             {"[]", "no JSON object"},
		"no tensors":        {meta + `} `, "no tensors"},
		"cut":               {valid[:40], ""},
		"no end":            {strings.TrimRight(valid, "} "), "unexpected EOF"},
		"tail":              {valid + "x       ", "form of this project"},
		"hole":              {meta + tensor("a", 0, 4) + tensor("b", 8, 12) + `}`, "holes"},
		"overlap":           {meta + tensor("a", 0, 8) + tensor("b", 4, 8) + `}`, "overlaps"},
		"starts late":       {meta + tensor("a", 4, 8) + `}`, "holes"},
		"data longer":       {meta + tensor("a", 0, 4) + `}`, "8 bytes"},
		"data shorter":      {meta + tensor("a", 0, 12) + `}`, "truncated"},
		"twice":             {meta + tensor("a", 0, 4) + tensor("a", 4, 8) + `}`, "twice"},
		"metadata twice":    {meta + `,"__metadata__":{"format":"pt"}` + tensor("a", 0, 8) + `}`, "twice"},
		"metadata extended": {`{"__metadata__":{"format":"pt","step":"1"}` + tensor("a", 0, 8) + `}`, "nothing else"},
		"metadata missing":  {`{` + tensor("a", 0, 8)[1:] + `}`, "form of this project"},
		"order":             {meta + tensor("b", 4, 8) + tensor("a", 0, 4) + `}`, "form of this project"},
		"key case":          {strings.ReplaceAll(valid, "dtype", "DType"), "form of this project"},
		"space":             {strings.ReplaceAll(valid, ",", ", "), "form of this project"},
		"padding missing":   {strings.TrimSpace(valid), "form of this project"},
		"other type":        {strings.ReplaceAll(valid, "F32", "F16"), "must be F32"},
		"unknown field":     {strings.ReplaceAll(valid, `"dtype"`, `"x":1,"dtype"`), "unknown field"},
		"field twice":       {strings.ReplaceAll(valid, `"dtype":"F32"`, `"dtype":"F32","dtype":"F32"`), "form of this project"},
		"no dimensions":     {strings.ReplaceAll(valid, "[1]", "[]"), "0 dimensions"},
		"many dimensions":   {strings.ReplaceAll(valid, "[1]", "[1,1,1,1,1,1,1,1,1]"), "9 dimensions"},
		"zero":              {strings.ReplaceAll(valid, "[1]", "[0]"), "above 0"},
		"negative":          {strings.ReplaceAll(valid, "[1]", "[-1]"), "above 0"},
		"product overflows": {strings.ReplaceAll(valid, "[1]", "[4611686018427387904,4]"), "63 bits"},
		"wrong product":     {strings.ReplaceAll(valid, "[1]", "[2]"), "must be 8 bytes"},
		"fraction":          {strings.ReplaceAll(valid, "[1]", "[1.5]"), "cannot unmarshal"},
		"three offsets":     {strings.ReplaceAll(valid, "[0,4]", "[0,4,4]"), "form of this project"},
		"end before begin":  {strings.ReplaceAll(valid, "[0,4]", "[0,-4]"), "must be 4 bytes"},
		"empty name":        {meta + tensor("", 0, 8) + `}`, "tensor name"},
		"long name":         {meta + tensor(strings.Repeat("n", 257), 0, 8) + `}`, "tensor name"},
		"name of no UTF-8":  {meta + tensor("\xff", 0, 8) + `}`, "tensor name"},
		"too long":          {strings.Repeat(" ", MaxHeaderBytes+1), "at most"},
	} {
		_, err := ParseHeader([]byte(c.header), 8)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// FuzzHeader: whatever is accepted is exactly what would be written, and covers its data once.
func FuzzHeader(f *testing.F) {
	layout := model.NewLayout(tiny())
	for _, tensors := range [][]HeaderTensor{
		{{Name: "w", Shape: []int{2, 3}, End: 24}}, ModelTensors(layout), OptimizerTensors(layout),
	} {
		b, err := MarshalHeader(tensors)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[LengthBytes:], tensors[len(tensors)-1].End)
	}
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,8]}}`), int64(8))
	f.Add([]byte(`{"a":[[[[`), int64(0))
	f.Fuzz(func(t *testing.T, header []byte, dataBytes int64) {
		tensors, err := ParseHeader(header, dataBytes)
		if err != nil {
			return
		}
		again, err := MarshalHeader(tensors)
		if err != nil || string(again[LengthBytes:]) != string(header) {
			t.Fatalf("accepted %q, would write %q, %v", header, again, err)
		}
		var end int64
		for _, tensor := range tensors {
			size := int64(4)
			for _, n := range tensor.Shape {
				size *= int64(n)
			}
			if tensor.Begin != end || tensor.End != end+size {
				t.Fatalf("tensor %v does not follow byte %d", tensor, end)
			}
			end = tensor.End
		}
		if end != dataBytes {
			t.Fatalf("tensors end at %d of %d", end, dataBytes)
		}
	})
}
