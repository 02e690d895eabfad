// Package prepare makes token datasets out of files and folders of text: it learns a tokenizer from a
// sample of the text, or takes a given one, encodes every document and writes them all.
//
// The dataset's folder is named after the text and after the fingerprint of all that decides its
// tokens, so the same text is prepared once and found again.
package prepare

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"andrea/dataset/arrowfile"
	"andrea/dataset/textdir"
	"andrea/tokenizer"
	"andrea/vfs"
)

// The phases of preparing, as Options.Progress names them.
const (
	PhaseRead   = "reading text"
	PhaseVerify = "verifying prepared tokens"
	PhaseLearn  = "learning the tokenizer"
	PhaseAwait  = "waiting for another process that prepares the same text"
	PhaseEncode = "encoding text"
)

// DefaultSampleBytes is how much text a tokenizer is learnt from if nothing else is asked for.
const DefaultSampleBytes = 16 << 20

// recipe is part of every fingerprint. It is raised when the same text would give other tokens than
// before.
const recipe = 1

// Options say what to prepare, and how.
type Options struct {
	FS            vfs.FS         // where the dataset is written
	Paths         []string       // files and folders of text
	Tokenizer     tokenizer.Spec // to learn, without TokenizerFile
	TokenizerFile []byte         // content of the file of a tokenizer to use; nil: one is learnt
	Out           string         // folder in which the dataset's own folder is made
	SampleBytes   int64          // of text to learn from; 0: DefaultSampleBytes
	Seed          uint64         // draws the documents to learn from

	// Progress, unless nil, is told now and then how far a phase is: percent or bytes, of a total that
	// is 0 where it is not known. It is called by one goroutine at a time.
	Progress func(phase string, done, total int64)
}

// Result is a prepared dataset.
type Result struct {
	Dir       string
	Reused    bool // it was there already
	Tokenizer *tokenizer.Tokenizer
	Info      arrowfile.Info
	TextBytes int64           // in all documents
	Skipped   textdir.Skipped // what was not taken for text
}

// Text prepares the text at o.Paths. A dataset that was made of the same text in the same way is
// verified and used again, also when another process makes it meanwhile, which is waited for. Else it
// is made as a whole or not at all: an error, ctx's among them, leaves
// nothing behind but an empty lock file, which the next one removes. The same text and options give the
// same bytes of every file; where a tokenizer is learnt, in programs with the same tables of Unicode
// (Go's unicode.Version), whose classes of letters decide what is learnt.
func Text(ctx context.Context, o Options) (Result, error) {
	if o.SampleBytes == 0 {
		o.SampleBytes = DefaultSampleBytes
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	given, err := o.givenTokenizer()
	if err != nil {
		return Result{}, err
	}
	o.Progress(PhaseRead, 0, 0)
	documents, skipped, err := textdir.Walk(ctx, o.Paths)
	if err != nil {
		return Result{}, err
	}
	source := textdir.Fingerprint(documents, o.recipe(given))
	dir, err := o.folder(source)
	if err != nil {
		return Result{}, err
	}
	r := Result{Dir: dir, Skipped: skipped}
	for _, d := range documents {
		r.TextBytes += d.Bytes
	}
	absent, err := arrowfile.Absent(o.FS, dir)
	switch {
	case err != nil:
		err = fmt.Errorf("looking for prepared tokens: %w", err)
	case absent:
		err = r.make(ctx, o, given, documents, source)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			err = r.reuse(ctx, o, source)
		}
	default:
		err = r.reuse(ctx, o, source)
	}
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// givenTokenizer returns the tokenizer that is not to be learnt, or nil.
func (o Options) givenTokenizer() (*tokenizer.Tokenizer, error) {
	switch {
	case o.TokenizerFile != nil:
		return tokenizer.Parse(o.TokenizerFile)
	case o.Tokenizer.Segments == 0:
		return tokenizer.Bytes(), nil
	}
	return nil, nil
}

// recipe names all that decides the tokens of a text.
func (o Options) recipe(given *tokenizer.Tokenizer) string {
	if given != nil {
		return fmt.Sprintf("recipe %d, tokenizer file sha256:%x", recipe, sha256.Sum256(given.Marshal()))
	}
	return fmt.Sprintf("recipe %d, learn %s from %d bytes drawn by seed %d, Unicode %s", recipe, o.Tokenizer, o.SampleBytes, o.Seed, unicode.Version)
}

// maxBase is how many characters of the text's name stand in the dataset's name.
const maxBase = 40

// folder names the dataset after its fingerprint and one of the paths, whose order must not matter: the
// one with the smallest name.
func (o Options) folder(source string) (string, error) {
	names := make([]string, len(o.Paths))
	for i, path := range o.Paths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("naming a dataset after %s: %w", path, err)
		}
		names[i] = cleanName(filepath.Base(absolute))
	}
	return filepath.Join(o.Out, slices.Min(names)+"-"+source[:12]), nil
}

// cleanName keeps the letters and digits of ASCII and puts one dash for every run of others.
func cleanName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	clean := strings.Join(words, "-")
	if clean = strings.TrimRight(clean[:min(len(clean), maxBase)], "-"); clean == "" {
		return "text"
	}
	return clean
}

// reuse verifies that the dataset is there whole and was made of source.
func (r *Result) reuse(ctx context.Context, o Options, source string) error {
	o.Progress(PhaseVerify, 0, 0)
	set, err := arrowfile.Open(o.FS, r.Dir)
	if err != nil {
		return r.damaged(err)
	}
	defer set.Close() // it was only read
	r.Info, r.Reused = set.Info(), true
	if r.Info.Source != source {
		return r.damaged(fmt.Errorf("it was made of %.80q, not of %q", r.Info.Source, source))
	}
	if err := set.Verify(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.damaged(err)
	}
	file, err := set.Tokenizer()
	if err == nil {
		r.Tokenizer, err = tokenizer.ParseMaker(file, r.Info.Tokenizer, r.Info.Vocab)
	}
	if err != nil {
		return r.damaged(err)
	}
	o.Progress(PhaseVerify, 1, 1)
	return nil
}

func (r *Result) damaged(err error) error {
	return fmt.Errorf("using the prepared tokens in %s: %w: remove this folder to have them made again", r.Dir, err)
}

// make writes the dataset. The error is fs.ErrExist when another process has done so meanwhile.
func (r *Result) make(ctx context.Context, o Options, given *tokenizer.Tokenizer, documents []textdir.Document, source string) error {
	r.Tokenizer = given
	if given == nil {
		learnt, err := learn(ctx, o, documents)
		if err != nil {
			return err
		}
		r.Tokenizer = learnt
	}
	w, err := r.claim(ctx, o, source)
	if err != nil {
		return err
	}
	done := int64(0)
	o.Progress(PhaseEncode, 0, r.TextBytes)
	err = encode(ctx, r.Tokenizer, textdir.Shuffled(documents), func(d textdir.Document, ids []uint32) error {
		if err := w.Document(ids); err != nil {
			return err
		}
		done += d.Bytes
		o.Progress(PhaseEncode, done, r.TextBytes)
		return nil
	})
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	r.Info, err = w.Commit()
	return err
}

// awaitInterval is how often a place is asked for that another process holds.
const awaitInterval = 100 * time.Millisecond

// claim begins to write the dataset, once no other process does.
func (r *Result) claim(ctx context.Context, o Options, source string) (*arrowfile.Writer, error) {
	meta := arrowfile.Meta{
		Vocab:         r.Tokenizer.Vocab(),
		Tokenizer:     r.Tokenizer.Identity(),
		TokenizerFile: r.Tokenizer.Marshal(),
		Source:        source,
	}
	for {
		w, err := arrowfile.Create(o.FS, r.Dir, meta)
		if !errors.Is(err, vfs.ErrLocked) {
			return w, err
		}
		o.Progress(PhaseAwait, 0, 0)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitInterval):
		}
	}
}
