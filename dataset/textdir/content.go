package textdir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// sniffBytes is how much of a file is searched for a NUL byte, which text does not hold.
const sniffBytes = 8 << 10

var errChanged = errors.New("it changed while it was being read: try again when nothing writes to it")

// hashAll fills in the hashes, several files at a time, and drops binary files. The result and the
// error (of the first file in order that has one) do not depend on who finishes first.
func hashAll(ctx context.Context, found []Document, skipped *Skipped) ([]Document, error) {
	binary, errs := make([]bool, len(found)), make([]error, len(found))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(found)) {
		workers.Go(func() {
			buf := make([]byte, 256<<10)
			for i := range next {
				if errs[i] = ctx.Err(); errs[i] == nil {
					binary[i], errs[i] = hash(&found[i], buf)
				}
			}
		})
	}
	for i := range found {
		next <- i
	}
	close(next)
	workers.Wait()
	kept := found[:0]
	for i, document := range found {
		if errs[i] != nil {
			return nil, fmt.Errorf("read %s: %w", document.Path, errs[i])
		}
		if binary[i] {
			skipped[Binary]++
			continue
		}
		kept = append(kept, document)
	}
	return kept, nil
}

// hash computes a document's SHA-256, piece by piece in buf (at least sniffBytes). Binary files are not read to the end.
func hash(document *Document, buf []byte) (binary bool, err error) {
	file, err := os.Open(document.Path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	// One byte more than expected tells that a file has grown.
	limited := io.LimitReader(file, document.Bytes+1)
	sum, size := sha256.New(), int64(0)
	for {
		n, err := io.ReadFull(limited, buf)
		if size == 0 && bytes.IndexByte(buf[:min(n, sniffBytes)], 0) >= 0 {
			return true, nil
		}
		sum.Write(buf[:n])
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return false, err
		}
	}
	if size != document.Bytes {
		return false, errChanged
	}
	sum.Sum(document.SHA256[:0])
	return false, nil
}

// Read returns the document's content. It fails, naming the path, when it cannot be read or is not
// what Walk saw. The caller owns the result.
func (d Document) Read() ([]byte, error) {
	file, err := os.Open(d.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content := make([]byte, d.Bytes+1)
	n, err := io.ReadFull(file, content)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if content = content[:n]; int64(n) == d.Bytes && sha256.Sum256(content) == d.SHA256 {
			return content, nil
		}
		err = errChanged
	}
	return nil, fmt.Errorf("read %s: %w", d.Path, err)
}
