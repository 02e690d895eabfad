package arrowfile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func goodInfo(t testing.TB) []byte {
	fsys, _ := small(t)
	return readFile(t, fsys, infoFile)
}

func TestInfoRefuses(t *testing.T) {
	good := string(goodInfo(t))
	for _, test := range []struct{ from, to, want string }{
		{`"format": 1`, `"format": 2`, "format 2: this program reads format 1"},
		{`"format": 1`, `"format": "1"`, "not JSON of a dataset"},
		{`"vocab": 300`, `"vocab": 256`, "vocab 256"},
		{`"vocab": 300`, `"vocab": 300, "extra": 1`, `unknown field "extra"`},
		{`"tokenizer": "bytes"`, `"tokenizer": ""`, "identity is empty"},
		{`"documents": 4`, `"documents": 5`, "5 documents and 46 tokens, but the shards have 4 and 46"},
		{`"tokens": 46`, `"tokens": 45`, "but the shards have"},
		{`"file": "shard-00000.arrow"`, `"file": "../../etc/passwd"`, `the file "../../etc/passwd"`},
		{`"file": "shard-00001.arrow"`, `"file": "shard-00000.arrow"`, `want "shard-00001.arrow"`},
		{`"sha256": "`, `"sha256": "g`, "must be 64 hex digits"},
		{`"bytes": 16`, `"bytes": -1`, "-1 bytes"},
	} {
		bad := strings.Replace(good, test.from, test.to, 1)
		if bad == good {
			t.Fatalf("%s does not occur in %s", test.from, good)
		}
		info, err := parseInfo([]byte(bad))
		mustName(t, err, test.want)
		if !reflect.DeepEqual(info, Info{}) {
			t.Errorf("%s: an Info besides an error", test.to)
		}
	}
	_, err := parseInfo([]byte(good + "{}"))
	mustName(t, err, "not JSON of a dataset", "after top-level value")
	_, err = parseInfo([]byte(good[:strings.Index(good, `"shards"`)] + `"shards": []}`))
	mustName(t, err, "0 shards")
}

// The same documents give the same bytes, and so the same identity, every time.
func TestDatasetIsReproducible(t *testing.T) {
	one, _ := small(t)
	two, _ := small(t)
	for _, name := range []string{infoFile, tokenizerFile, shardName(0), shardName(1)} {
		if string(readFile(t, one, name)) != string(readFile(t, two, name)) {
			t.Errorf("%s differs", name)
		}
	}
	// A stored identity: it changes with the format, never by accident.
	if got := open(t, one, dir).Info().Fingerprint; got != goldenFingerprint {
		t.Errorf("fingerprint %s, want %s", got, goldenFingerprint)
	}
}

const goldenFingerprint = "9ba29a2d1129623c811676af1ab54d5faec8e3b510409001cf83e1ce8def894c"

func FuzzInfo(f *testing.F) {
	f.Add(goodInfo(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := parseInfo(data)
		if err != nil {
			return
		}
		again, err := info.marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseInfo(again)
		if err != nil || !reflect.DeepEqual(back, info) {
			t.Fatalf("%s becomes %s, %v", data, again, err)
		}
		if !json.Valid(again) {
			t.Fatal("not JSON")
		}
	})
}
