package launch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/dataset/prepare"
	"andrea/pipeline"
	"andrea/tokenizer"
	"andrea/vfs"
)

// words of the test corpus.
var words = strings.Fields(`the a one some every river mountain house road light wind stone water fire
runs stands falls turns holds keeps breaks under over beside behind before after slowly again never always`)

// writeCorpus writes the same few documents of invented sentences for ever: no Go
// release and no machine changes them.
func writeCorpus(t testing.TB, dir string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 11))
	for doc := range 12 {
		var text strings.Builder
		for range 60 {
			for i := range 5 + rng.IntN(6) {
				if i > 0 {
					text.WriteByte(' ')
				}
				text.WriteString(words[rng.IntN(len(words))])
			}
			text.WriteString(".\n")
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("doc%02d.txt", doc)), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tinyDataset prepares the corpus with the bytes tokenizer and returns its folder.
func tinyDataset(t testing.TB) string {
	t.Helper()
	text, out := t.TempDir(), t.TempDir()
	writeCorpus(t, text)
	spec, err := tokenizer.ParseSpec("bytes")
	if err != nil {
		t.Fatal(err)
	}
	r, err := prepare.Text(context.Background(), prepare.Options{FS: vfs.OS, Paths: []string{text}, Tokenizer: spec, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return r.Dir
}

// tinyJob is 20 steps of a model that trains in a moment.
func tinyJob(t testing.TB, dataset string) pipeline.JobSpec {
	t.Helper()
	spec, err := pipeline.ParseJobSpec([]byte(`
name: tiny
model: {d_model: 48, n_head: 3, n_layer: 2, context: 48}
batch: {tokens_per_step: 384, microbatch: 1, lanes: 4}
optimizer: {lr: 3e-3, min_lr: 3e-4, warmup_steps: 4}
steps: 20
eval: {every: 10, windows: 4}
checkpoint: {every: 5, keep_last: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	spec.Data.Path, spec.Data.Validation = dataset, 0.05
	return spec
}
