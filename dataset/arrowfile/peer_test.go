package arrowfile

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"andrea/vfs"
)

const peer = `
import json, sys, pyarrow as pa, pyarrow.ipc as ipc
tokens, types = [], []
for path in sys.argv[2:]:
    reader = ipc.open_file(path)
    types.append(str(reader.schema.field("tokens").type))
    for i in range(reader.num_record_batches):
        batch = reader.get_batch(i)
        batch.validate(full=True)
        for row in batch.column("tokens").to_pylist():
            tokens.extend(row)
stream = ipc.open_stream(sys.argv[1])
batches = list(stream)
for b in batches: b.validate(full=True)
windows = [b.column("tokens").to_pylist() for b in batches]
print(json.dumps({"tokens": tokens, "types": types, "windows": windows}))
`

// pyarrow, the reference implementation, reads the same tokens out of shards and messages.
func TestPyarrowReadsTheSame(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import pyarrow").Run() != nil {
		t.Skip("no python3 with pyarrow here: the peer is missing")
	}
	for _, vocab := range []int{300, 70_000} {
		folder := filepath.Join(t.TempDir(), "tokens")
		documents := counting(vocab, 10, 1, 30, 5)
		info := write(t, vfs.OS, folder, vocab, 16, 32, documents)
		sent := windows(3, 7, vocab)
		message := filepath.Join(folder, "message")
		if err := os.WriteFile(message, must[[]byte](t)(EncodeWindows(sent, Wide(vocab))), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-c", peer, message}
		for _, shard := range info.Shards {
			args = append(args, filepath.Join(folder, shard.File))
		}
		var got struct {
			Tokens  []uint32
			Types   []string
			Windows [][][]uint32
		}
		if err := json.Unmarshal(must[[]byte](t)(exec.Command(python, args...).Output()), &got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Tokens, slices.Concat(documents...)) {
			t.Errorf("vocabulary %d: pyarrow reads %v", vocab, got.Tokens)
		}
		if len(got.Windows) != 1 || !slices.EqualFunc(got.Windows[0], sent, slices.Equal) {
			t.Errorf("vocabulary %d: pyarrow reads the windows %v", vocab, got.Windows)
		}
		t.Logf("pyarrow calls the column %v", got.Types)
	}
}
