package tokenizer

import (
	gobuild "go/build"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// goSource returns up to budget bytes of Go's own .go files, chosen by ChooseSample: real text that every machine with
// Go has.
func goSource(b *testing.B, budget int64) [][]byte {
	b.Helper()
	var paths []string
	var sizes []int64
	root := filepath.Join(gobuild.Default.GOROOT, "src")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		paths, sizes = append(paths, path), append(sizes, info.Size())
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if len(paths) == 0 {
		b.Skip("Go's own source is not installed")
	}
	var docs [][]byte
	for _, i := range ChooseSample(sizes, budget, 1) {
		doc, err := os.ReadFile(paths[i])
		if err != nil {
			b.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

func learnDocs(b *testing.B, docs [][]byte, segments int) *Tokenizer {
	b.Helper()
	l, err := NewLearner(Spec{Segments: segments}, MaxSampleBytes)
	if err != nil {
		b.Fatal(err)
	}
	for _, doc := range docs {
		l.Add(doc)
	}
	tok, err := l.Learn(nil)
	if err != nil {
		b.Fatal(err)
	}
	return tok
}

func BenchmarkLearn(b *testing.B) {
	for _, c := range []struct {
		name     string
		budget   int64
		segments int
	}{{"16MiB/2048", 16 << 20, 2048}, {"16MiB/8192", 16 << 20, 8192}, {"64MiB/2048", 64 << 20, 2048}} {
		b.Run(c.name, func(b *testing.B) {
			docs := goSource(b, c.budget)
			for b.Loop() {
				learnDocs(b, docs, c.segments)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	docs := goSource(b, 4<<20)
	for _, c := range []struct {
		name string
		tok  *Tokenizer
	}{{"bytes", Bytes()}, {"harris:2048", learnDocs(b, docs, 2048)}} {
		b.Run(c.name, func(b *testing.B) {
			var ids []uint32
			total, tokens := 0, 0
			for _, doc := range docs {
				total += len(doc)
			}
			b.SetBytes(int64(total))
			for b.Loop() {
				tokens = 0
				for _, doc := range docs {
					ids = c.tok.Encode(ids[:0], doc)
					tokens += len(ids)
				}
			}
			b.ReportMetric(float64(total)/float64(tokens), "bytes/token")
		})
	}
}
