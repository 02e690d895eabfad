package arrowfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"andrea/dataset"
	"andrea/vfs"
)

// Verify reads the whole dataset and compares it with dataset.json: the SHA-256 of every file; every
// row through the Arrow library, against what Read gives; every id against the vocabulary; BOS at the
// beginning of documents only; the number of documents. It returns the first fault, naming the file,
// or the context's error.
func (d *Dataset) Verify(ctx context.Context) error {
	if _, err := d.Tokenizer(); err != nil {
		return err
	}
	batches := d.batches
	for i := range d.shards {
		n := 0
		for n < len(batches) && batches[n].shard == i {
			n++
		}
		if err := d.verifyShard(ctx, i, batches[:n]); err != nil {
			return fmt.Errorf("verify %s: %w", d.shardPath(i), err)
		}
		batches = batches[n:]
	}
	return nil
}

// VerifySums reads every shard and compares its SHA-256 with dataset.json: the bytes are those that
// were written. It returns the first fault, naming the file, or the context's error.
func (d *Dataset) VerifySums(ctx context.Context) error {
	for i := range d.shards {
		if err := d.verifySum(ctx, i); err != nil {
			return fmt.Errorf("verify %s: %w", d.shardPath(i), err)
		}
	}
	return nil
}

func (d *Dataset) verifyShard(ctx context.Context, i int, batches []placedBatch) error {
	if err := d.verifySum(ctx, i); err != nil {
		return err
	}
	file := io.NewSectionReader(d.shards[i], 0, d.info.Shards[i].Bytes)
	var documents uint64
	err := guard(func() error {
		reader, err := ipc.NewFileReader(file, ipc.WithAllocator(d.alloc))
		if err != nil {
			return err
		}
		defer reader.Close()
		if reader.NumRecords() != len(batches) {
			return fmt.Errorf("the Arrow library finds %d record batches, not %d", reader.NumRecords(), len(batches))
		}
		for n, b := range batches {
			if err := ctx.Err(); err != nil {
				return err
			}
			begun, err := d.verifyBatch(reader, n, b)
			if err != nil {
				return fmt.Errorf("record batch %d: %w", n, err)
			}
			documents += begun
		}
		return nil
	})
	if err != nil {
		return err
	}
	if want := d.info.Shards[i].Documents; documents != want {
		return fmt.Errorf("%d documents begin in it, but dataset.json says %d", documents, want)
	}
	return nil
}

// verifySum compares the SHA-256 of a shard.
func (d *Dataset) verifySum(ctx context.Context, i int) error {
	sum, shard := sha256.New(), d.info.Shards[i]
	buf := make([]byte, min(shard.Bytes, 1<<20))
	for at := int64(0); at < shard.Bytes; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(int64(len(buf)), shard.Bytes-at)]
		if err := vfs.ReadFullAt(d.shards[i], buf, at); err != nil {
			return err
		}
		sum.Write(buf)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != shard.SHA256 {
		return fmt.Errorf("its SHA-256 is %s, but dataset.json says %s: the file is damaged: prepare the dataset again", got, shard.SHA256)
	}
	return nil
}

// verifyBatch reads the n-th record batch through the library and compares it with Read. It returns
// how many documents begin in it.
func (d *Dataset) verifyBatch(reader *ipc.FileReader, n int, b placedBatch) (documents uint64, err error) {
	record, err := reader.RecordAt(n)
	if err != nil {
		return 0, err
	}
	defer record.Release()
	list, ok := record.Column(0).(*array.List)
	if !ok || list.Len() != b.rows || list.NullN() != 0 {
		return 0, errors.New("it is not the list of rows that its metadata describe")
	}
	tokens := make([]uint32, b.tokens)
	if err := d.Read(tokens, b.start); err != nil {
		return 0, err
	}
	if !sameTokens(list.ListValues(), tokens) {
		return 0, errors.New("the Arrow library reads other tokens")
	}
	return countDocuments(list.Offsets()[:b.rows+1], tokens, b.start == 0)
}

func sameTokens(values arrow.Array, tokens []uint32) bool {
	if values.Len() != len(tokens) || values.NullN() != 0 {
		return false
	}
	for i, token := range tokens {
		switch values := values.(type) {
		case *array.Uint16:
			if uint32(values.Value(i)) != token {
				return false
			}
		case *array.Uint32:
			if values.Value(i) != token {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// countDocuments counts the rows that begin with BOS and checks that BOS stands nowhere else, that
// no row is empty, and that the first row of the stream begins a document.
func countDocuments(offsets []int32, tokens []uint32, first bool) (documents uint64, err error) {
	if first && tokens[0] != dataset.BOS {
		return 0, fmt.Errorf("the first token of the dataset is %d, not BOS", tokens[0])
	}
	for row := range len(offsets) - 1 {
		from, to := offsets[row], offsets[row+1]
		if from < 0 || from >= to || int(to) > len(tokens) {
			return 0, fmt.Errorf("row %d: tokens %d to %d of %d", row, from, to, len(tokens))
		}
		if tokens[from] == dataset.BOS {
			documents++
		}
		for i, id := range tokens[from+1 : to] {
			if id == dataset.BOS {
				return 0, fmt.Errorf("row %d: BOS at its position %d", row, i+1)
			}
		}
	}
	return documents, nil
}
