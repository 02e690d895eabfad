package checkpoints

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"andrea/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("differs from %s (go test -update writes it anew; a change of a format needs a new number):\n%s", path, got)
	}
}

// example is a valid manifest of the tiny model.
func example(t testing.TB) Manifest {
	t.Helper()
	bytes, err := fileBytes(tiny())
	if err != nil {
		t.Fatal(err)
	}
	bytes[TokenizerFile] = 17
	m := Manifest{
		Format: FormatNewest, Step: 100, Run: "demo", CreatedBy: "andrea 0.1.0", EngineClass: "cpu-fp32-n1",
		Model: tiny(), Tokenizer: "bytes", Data: DataPosition{Position: 800, Epoch: 1, Fingerprint: "f00d"},
		StateDigest: model.Digest{1, 2}, RecordDigest: SHA256Hex([]byte("record")),
		Job: "name: demo # <&>\nsteps: 200\n",
	}
	for _, name := range FileNames() {
		m.Files = append(m.Files, File{Name: name, Bytes: bytes[name], SHA256: SHA256Hex([]byte(name))})
	}
	return m
}

func marshal(t testing.TB, m Manifest) []byte {
	t.Helper()
	data, err := Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestManifestGolden(t *testing.T) {
	m := example(t)
	data := marshal(t, m)
	golden(t, "manifest.json", data)
	got, err := Parse(data)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("comes back as %+v, %v", got, err)
	}
}

func TestConfigGolden(t *testing.T) {
	config, err := model.Variant("12m")
	if err != nil {
		t.Fatal(err)
	}
	data, err := ConfigJSON(config)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "config.json", data)
}

func TestManifestFaultsAreAllNamed(t *testing.T) {
	m := example(t)
	m.Format, m.Step, m.Run, m.RecordDigest, m.Data.Epoch = 7, -1, "", "XYZ", -2
	m.Job = "\xff"
	m.Files[0].Bytes++
	m.Files[1].SHA256 = strings.ToUpper(m.Files[1].SHA256)
	_, err := Marshal(m)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, fault := range []string{"format is 7", "step is -1", "run is", "record_digest", "epoch -2", "job is", "config.json has", "sha256 of model.safetensors"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("no word of %q in: %v", fault, err)
		}
	}
}

func TestManifestRefusals(t *testing.T) {
	for name, change := range map[string]func(m *Manifest){
		"wrong model":       func(m *Manifest) { m.Model.NHead = 3 },
		"no files":          func(m *Manifest) { m.Files = nil },
		"files out of turn": func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] },
		"path as a file":    func(m *Manifest) { m.Files[0].Name = "../config.json" },
		"huge tokenizer":    func(m *Manifest) { m.Files[3].Bytes = 1 << 40 },
		"huge job":          func(m *Manifest) { m.Job = strings.Repeat("x", maxJobBytes+1) },
		"record missing":    func(m *Manifest) { m.RecordDigest = "" },
	} {
		m := example(t)
		change(&m)
		if _, err := Marshal(m); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	m := example(t)
	m.Step, m.RecordDigest = 0, ""
	if _, err := Marshal(m); err != nil {
		t.Errorf("the initial state has no record, yet: %v", err)
	}
}

func TestParseRefusesEveryChangedByte(t *testing.T) {
	data := marshal(t, example(t))
	for i := range data {
		for _, bit := range []byte{1, 0x20} {
			changed := append([]byte(nil), data...)
			changed[i] ^= bit
			if _, err := Parse(changed); err == nil {
				t.Fatalf("bit %#x of byte %d (%q) flipped: accepted", bit, i, data[i])
			}
		}
		if _, err := Parse(data[:i]); err == nil {
			t.Fatalf("cut to %d bytes: accepted", i)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	data := string(marshal(t, example(t)))
	for name, c := range map[string]struct{ data, want string }{
		"newer format":  {strings.Replace(data, `"format": 2`, `"format": 3`, 1), "reads 2 to 2: use a newer"},
		"older format":  {strings.Replace(data, `"format": 2`, `"format": 1`, 1), "earlier build: this program reads 2 to 2: go on with"},
		"no format":     {"{}", "format 0"},
		"no JSON":       {"\x00\x00", "no valid JSON"},
		"unknown field": {strings.Replace(data, `"run"`, `"color": "red", "run"`, 1), "unknown field"},
		"field twice":   {strings.Replace(data, `"run"`, `"run": "demo", "run"`, 1), "damaged or edited"},
		"key case":      {strings.Replace(data, `"run"`, `"Run"`, 1), "damaged or edited"},
		"edited":        {strings.Replace(data, `"demo"`, `"dema"`, 1), "damaged or edited"},
		"tail":          {data + "\n", "damaged or edited"},
		"too long":      {data + strings.Repeat(" ", MaxManifestBytes), "at most"},
	} {
		if _, err := Parse([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// FuzzManifest: whatever is accepted is exactly what would be written.
func FuzzManifest(f *testing.F) {
	f.Add(marshal(f, example(f)))
	initial := example(f)
	initial.Step, initial.RecordDigest = 0, ""
	f.Add(marshal(f, initial))
	f.Add([]byte(`{"format":2,"step":1e3}`))
	f.Add([]byte(`{"format":2,"model":{"d_model":65536,"n_head":1,"n_layer":1024,"norm_eps":1e39}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if again := marshal(t, m); string(again) != string(data) {
			t.Fatalf("accepted %q, would write %q", data, again)
		}
	})
}
