package arrowfile

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"andrea/dataset"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

func mustName(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want an error with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not contain %q", err, word)
		}
	}
}

const dir = "/data/tokens" // in memory

// small writes a dataset of 2 shards and 4 record batches and returns its file system and stream.
func small(t testing.TB) (fsys vfs.FS, stream []uint32) {
	fsys = crashfs.New()
	documents := counting(300, 10, 1, 30, 5)
	write(t, fsys, dir, 300, 16, 32, documents)
	return fsys, slices.Concat(documents...)
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	return must[[]byte](t)(vfs.ReadFile(fsys, filepath.Join(dir, name), 1<<30))
}

func writeFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	if err := vfs.WriteFileSync(fsys, filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tokens")
	for _, test := range []struct {
		meta Meta
		want string
	}{
		{Meta{Vocab: 256, Tokenizer: "x"}, "vocab 256: must be 257.."},
		{Meta{Vocab: math.MaxInt, Tokenizer: "x"}, "vocab 9223372036854775807"},
		{Meta{Vocab: 257}, "tokenizer: the identity is empty"},
		{Meta{Vocab: 257, Tokenizer: strings.Repeat("x", 4097)}, "tokenizer: must be at most"},
		{Meta{Vocab: 257, Tokenizer: "x", Source: "\xff"}, "source: must be at most"},
		{Meta{Vocab: 257, Tokenizer: "x", TokenizerFile: make([]byte, maxTokenizer+1)}, "tokenizer file"},
	} {
		_, err := Create(vfs.OS, dir, test.meta)
		mustName(t, err, dir, test.want)
	}
	w := must[*Writer](t)(Create(vfs.OS, dir, meta(300)))
	for _, test := range []struct {
		ids  []uint32
		want string
	}{
		{nil, "document 0: it does not begin with the BOS id 256"},
		{[]uint32{5, 256}, "does not begin with the BOS id 256"},
		{[]uint32{256, 1, 300}, "id 300 at position 2"},
		{[]uint32{256, math.MaxUint32}, "id 4294967295 at position 1"},
		{[]uint32{256, 1, 256}, "BOS id 256 stands at position 2"},
	} {
		mustName(t, w.Document(test.ids), dir, test.want)
	}
	_, err := w.Commit()
	mustName(t, err, "no documents")
	mustName(t, w.Document([]uint32{256}), "closed")
	_, err = w.Commit()
	mustName(t, err, "closed")
	if left := besides(t, vfs.OS, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// A refused document leaves no trace in what is written after it.
func TestRefusedDocumentChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tokens")
	w := must[*Writer](t)(Create(vfs.OS, dir, meta(300)))
	for _, ids := range [][]uint32{{256, 1}, {256, 2, 256}, {256, 3}} {
		if err := w.Document(ids); (err == nil) != (len(ids) == 2) {
			t.Fatal(err)
		}
	}
	info := must[Info](t)(w.Commit())
	if info.Documents != 2 || info.Tokens != 4 {
		t.Errorf("%d documents, %d tokens", info.Documents, info.Tokens)
	}
	compareRanges(t, open(t, vfs.OS, dir), []uint32{256, 1, 256, 3})
}

func TestWriterLeavesOthersAlone(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "tokens")
	for _, existing := range []string{dir, filepath.Join(dir, "mine")} { // a file, then a folder with one
		if err := errors.Join(os.MkdirAll(filepath.Dir(existing), 0o755), os.WriteFile(existing, []byte("mine"), 0o644)); err != nil {
			t.Fatal(err)
		}
		_, err := Create(vfs.OS, dir, meta(300))
		mustName(t, err, dir, "exists already")
		if got := must[[]byte](t)(os.ReadFile(existing)); string(got) != "mine" {
			t.Errorf("%s became %q", existing, got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	// What appears while a dataset is written stays, and the dataset goes.
	w := must[*Writer](t)(Create(vfs.OS, dir, meta(300)))
	if err := errors.Join(w.Document([]uint32{256, 7}), os.WriteFile(dir, []byte("mine"), 0o644)); err != nil {
		t.Fatal(err)
	}
	_, err := w.Commit()
	mustName(t, err, "exists already")
	if got := must[[]byte](t)(os.ReadFile(dir)); string(got) != "mine" {
		t.Errorf("it became %q", got)
	}
	if got := besides(t, vfs.OS, dir); got != "tokens" {
		t.Errorf("in the folder: %s", got)
	}
}

// besides lists what lies in the folder of a dataset's place, but for its lock.
func besides(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	var names []string
	for _, entry := range must[[]fs.DirEntry](t)(fsys.ReadDir(filepath.Dir(dir))) {
		if entry.Name() != filepath.Base(dir)+".lock" {
			names = append(names, entry.Name())
		}
	}
	return strings.Join(names, " ")
}

// A second writer of the same place is refused, disturbs nothing, and has its turn when the first ends.
func TestOneWriterAtATime(t *testing.T) {
	for _, fsys := range []vfs.FS{vfs.OS, crashfs.New()} {
		dir := filepath.Join(t.TempDir(), "tokens")
		first := must[*Writer](t)(Create(fsys, dir, meta(300)))
		_, err := Create(fsys, dir, meta(300))
		if !errors.Is(err, vfs.ErrLocked) {
			t.Fatalf("a second writer: %v", err)
		}
		mustName(t, err, dir, "wait")
		if err := errors.Join(first.Document([]uint32{256, 7}), first.Abort()); err != nil {
			t.Fatal(err)
		}
		second := must[*Writer](t)(Create(fsys, dir, meta(300)))
		if err := second.Document([]uint32{256, 8}); err != nil {
			t.Fatal(err)
		}
		must[Info](t)(second.Commit())
		_, err = Create(fsys, dir, meta(300))
		mustName(t, err, "exists already")
		compareRanges(t, open(t, fsys, dir), []uint32{256, 8})
		if got := besides(t, fsys, dir); got != "tokens" {
			t.Errorf("in the folder: %s", got)
		}
		if _, err := fsys.Stat(dir + ".lock"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the lock is still there: %v", err)
		}
	}
}

func TestWriterFillsAnEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, vfs.OS, dir, 300, 16, 32, counting(300, 40))
	compareRanges(t, open(t, vfs.OS, dir), counting(300, 40)[0])
}

func TestReadRefusesRanges(t *testing.T) {
	fsys, stream := small(t)
	d := open(t, fsys, dir)
	n := uint64(len(stream))
	for _, r := range []struct {
		start  uint64
		length int
	}{{n, 1}, {n - 1, 2}, {0, len(stream) + 1}, {math.MaxUint64, 1}, {math.MaxUint64, 0}} {
		mustName(t, d.Read(make([]uint32, r.length), r.start), dir, "it has 46")
	}
	if err := d.Read(nil, n); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
}

// stride thins damage out: it is odd, so all eight bits take turns, and the whole set takes a minute.
const stride = 5

// A truncation and a flipped bit anywhere in any file is an error of Open or Verify, never a panic,
// and Read never gives an id outside the vocabulary.
func TestDamagedFilesAreFound(t *testing.T) {
	fsys, _ := small(t)
	for _, name := range []string{shardName(0), shardName(1), infoFile, tokenizerFile} {
		whole := readFile(t, fsys, name)
		damage := func(what string, at int, data []byte) {
			writeFile(t, fsys, name, data)
			if err := openAndVerify(t, fsys); err == nil && name != infoFile {
				t.Fatalf("%s: %s %d is not noticed", name, what, at)
			}
		}
		for length := 0; length < len(whole); length += stride {
			damage("truncation at", length, whole[:length])
		}
		for bit := 0; bit < 8*len(whole); bit += stride {
			flipped := slices.Clone(whole)
			flipped[bit/8] ^= 1 << (bit % 8)
			damage("flipped bit", bit, flipped)
		}
		damage("longer by", 1, append(slices.Clone(whole), 0))
		writeFile(t, fsys, name, whole)
	}
	if err := openAndVerify(t, fsys); err != nil {
		t.Fatal(err)
	}
}

func openAndVerify(t *testing.T, fsys vfs.FS) error {
	d, err := Open(fsys, dir)
	if err != nil {
		return err
	}
	defer d.Close()
	tokens := make([]uint32, 20)
	for start := uint64(0); start+20 <= d.Info().Tokens; start += 7 {
		if d.Read(tokens, start) == nil && slices.Max(tokens) >= uint32(d.Info().Vocab) {
			t.Fatalf("Read gives %v with a vocabulary of %d", tokens, d.Info().Vocab)
		}
	}
	return d.Verify(context.Background())
}

// Damage that comes with a matching dataset.json, so that no checksum tells: the framing checks and
// the library must give errors, or read something harmless, and never panic or allocate without bound.
func TestForgedShards(t *testing.T) {
	fsys, _ := small(t)
	whole := readFile(t, fsys, shardName(0))
	for bit := 0; bit < 8*len(whole); bit += stride {
		forged := slices.Clone(whole)
		forged[bit/8] ^= 1 << (bit % 8)
		forge(t, fsys, forged)
		_ = openAndVerify(t, fsys) // flipped tokens are another dataset; it is the panic that counts
	}
	for at := 0; at+4 <= len(whole); at += 4 {
		for _, value := range []uint32{0, 1, math.MaxInt32, 0x80000000, math.MaxUint32} {
			forged := slices.Clone(whole)
			binary.LittleEndian.PutUint32(forged[at:], value)
			forge(t, fsys, forged)
			_ = openAndVerify(t, fsys)
		}
	}
}

// forge puts a first shard into the dataset and makes dataset.json agree with it.
func forge(t testing.TB, fsys vfs.FS, shard []byte) {
	t.Helper()
	info := must[Info](t)(parseInfo(readFile(t, fsys, infoFile)))
	info.Shards[0].FileInfo = FileInfo{int64(len(shard)), fingerprint(shard)}
	writeFile(t, fsys, infoFile, must[[]byte](t)(info.marshal()))
	writeFile(t, fsys, shardName(0), shard)
}

func TestVerifyFindsWrongContent(t *testing.T) {
	for _, test := range []struct {
		from, to []uint16 // a pattern of ids in the first shard and what stands there instead
		want     string
	}{
		{[]uint16{256, 0, 1}, []uint16{5, 0, 1}, "first token of the dataset is 5, not BOS"},
		{[]uint16{3, 4, 5}, []uint16{3, 256, 5}, "BOS at its position 5"},
		{[]uint16{3, 4, 5}, []uint16{3, 300, 5}, "id 300 is not below the vocabulary of 300"},
		{[]uint16{7, 8, 256}, []uint16{7, 8, 9}, "2 documents begin in it, but dataset.json says 3"},
	} {
		fsys, _ := small(t)
		shard := readFile(t, fsys, shardName(0))
		at := strings.Index(string(shard), string(ids16(test.from)))
		if at < 0 {
			t.Fatalf("%v does not occur", test.from)
		}
		copy(shard[at:], ids16(test.to))
		forge(t, fsys, shard)
		d := open(t, fsys, dir)
		mustName(t, d.Verify(t.Context()), shardName(0), test.want)
	}
}

func ids16(ids []uint16) (data []byte) {
	for _, id := range ids {
		data = binary.LittleEndian.AppendUint16(data, id)
	}
	return data
}

func TestOpenFindsAnotherDatasetsShard(t *testing.T) {
	fsys, _ := small(t)
	for name, other := range map[string]Meta{
		"its schema says": {Vocab: 301, Tokenizer: "bytes"},
		`"harris:2048"`:   {Vocab: 300, Tokenizer: "harris:2048"},
		"its column is list<uint32>, but the voc": {Vocab: 1 << 17, Tokenizer: "bytes"},
	} {
		elsewhere := crashfs.New()
		w := must[*Writer](t)(Create(elsewhere, dir, other))
		if err := w.Document([]uint32{dataset.BOS, 1}); err != nil {
			t.Fatal(err)
		}
		must[Info](t)(w.Commit())
		forge(t, fsys, readFile(t, elsewhere, shardName(0)))
		_, err := Open(fsys, dir)
		mustName(t, err, shardName(0), name)
	}
}

func TestVerifyStopsOnCancel(t *testing.T) {
	fsys, _ := small(t)
	d := open(t, fsys, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Opening does not read tokens: VerifySums finds what it cannot see, in every shard.
func TestVerifySums(t *testing.T) {
	fsys, _ := small(t)
	sums := func() error {
		d := must[*Dataset](t)(Open(fsys, dir))
		return errors.Join(d.VerifySums(t.Context()), d.Close())
	}
	if err := sums(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{shardName(0), shardName(1)} {
		data := readFile(t, fsys, name)
		flipped := slices.Clone(data)
		d := must[*Dataset](t)(Open(fsys, dir))
		at := d.batches[0].values
		if name == shardName(1) {
			at = d.batches[len(d.batches)-1].values
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		flipped[at] ^= 1
		writeFile(t, fsys, name, flipped)
		mustName(t, sums(), name, "SHA-256")
		writeFile(t, fsys, name, data)
	}
}
