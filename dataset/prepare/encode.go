package prepare

import (
	"context"
	"runtime"
	"sync"

	"andrea/dataset/textdir"
	"andrea/tokenizer"
)

// What is in memory of documents that are not yet written is bounded: a document counts in units of
// unitBytes of its text and ids together, 1 at least, and one of more than all of them waits until it is
// alone.
const (
	unitBytes       = 4 << 20
	idBytes         = 4
	minUnits        = 16
	unitsPerEncoder = 4 // so that none waits for a document
)

// job is a document on its way through the encoders.
type job struct {
	document textdir.Document
	units    int
	done     chan encoded
}

// encoded are the ids of a document, BOS first.
type encoded struct {
	ids []uint32
	err error
}

// encode reads and encodes documents on all processors and hands them to write in their order, from the
// calling goroutine. It ends with the first error in that order, or ctx's, when all its goroutines have
// ended.
func encode(ctx context.Context, t *tokenizer.Tokenizer, documents []textdir.Document, write func(textdir.Document, []uint32) error) error {
	ctx, cancel := context.WithCancel(ctx)
	encoders := runtime.GOMAXPROCS(0)
	units := max(minUnits, unitsPerEncoder*encoders)
	free := make(chan struct{}, units) // an element is a unit in use
	waiting := make(chan job, units)   // for an encoder; as many jobs as units is all there can be
	ordered := make(chan job, units)   // for write
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		defer close(waiting)
		defer close(ordered)
		for _, d := range documents {
			j := job{d, min(units, unitsOf(t, d.Bytes)), make(chan encoded, 1)}
			if !take(ctx, free, j.units) {
				return
			}
			waiting <- j
			ordered <- j
		}
	})
	for range encoders {
		running.Go(func() {
			for j := range waiting {
				j.done <- j.encode(ctx, t)
			}
		})
	}
	for j := range ordered {
		result := <-j.done
		if result.err != nil {
			return result.err
		}
		if err := write(j.document, result.ids); err != nil {
			return err
		}
		for range j.units {
			<-free
		}
	}
	return ctx.Err()
}

// take takes n units, or reports false when ctx is done.
func take(ctx context.Context, free chan<- struct{}, n int) bool {
	for range n {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (j job) encode(ctx context.Context, t *tokenizer.Tokenizer) encoded {
	if err := ctx.Err(); err != nil {
		return encoded{err: err}
	}
	text, err := j.document.Read()
	if err != nil {
		return encoded{err: err}
	}
	ids := make([]uint32, 1, expectedIDs(t, int64(len(text))))
	ids[0] = tokenizer.BOS
	return encoded{ids: t.Encode(ids, text)}
}

// unitsOf is how many units a document of so many bytes of text counts.
func unitsOf(t *tokenizer.Tokenizer, textBytes int64) int {
	return 1 + int((textBytes+idBytes*expectedIDs(t, textBytes))/unitBytes)
}

// expectedIDs is how many ids a document of so many bytes hardly exceeds: BOS and one for each byte where
// there are no segments, and else one for two bytes, since segments have two bytes at least and cover
// nearly all of any text like the one they were learnt from.
func expectedIDs(t *tokenizer.Tokenizer, textBytes int64) int64 {
	if t.Segments() == 0 {
		return 1 + textBytes
	}
	return 1 + textBytes/2
}
