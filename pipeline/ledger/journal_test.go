package ledger_test

import (
	"bytes"
	"testing"

	"andrea/pipeline"
	"andrea/pipeline/ledger"
)

// Whatever a journal's file holds, its good beginning is read, and the fault is that of the line behind.
func FuzzReadJournal(f *testing.F) {
	p := planOf(f, 1, 12)
	data, _ := written(f, honest(f, p, 2))
	f.Add(data)
	f.Add(append(bytes.Clone(data), "torn"...))
	f.Add(bytes.Replace(data, []byte(`"step":2`), []byte(`"step":3`), 1))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, broken, err := ledger.ReadJournal(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		again, _ := written(t, j.Steps)
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("read\n%s\nfrom\n%s", again, data)
		}
		if _, err := pipeline.ParseJournal(data); (err == nil) != (broken == nil) {
			t.Fatalf("the fault is %v, the error %v", broken, err)
		}
		if broken == nil {
			return
		}
		end := bytes.IndexByte(data[len(again):], '\n')
		if end < 0 {
			t.Fatalf("a torn line is a fault: %v", broken)
		}
		if _, err := pipeline.ParseJournal(data[:len(again)+end+1]); err == nil || broken.Step != int64(bytes.Count(again, []byte("\n"))/2+1) {
			t.Fatalf("the fault is in another line than %v says: %v", broken, err)
		}
	})
}
