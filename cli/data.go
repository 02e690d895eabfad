package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"andrea/checkpoints"
	"andrea/dataset/arrowfile"
	"andrea/dataset/prepare"
	"andrea/launch"
	"andrea/tokenizer"
	"andrea/vfs"
)

func dataCommand(o outside) *cobra.Command {
	return group(&cobra.Command{
		Use:   "data",
		Short: "Turn text into token datasets, and verify them",
		Long: `Turn text into token datasets, and verify them.

A dataset is a folder: dataset.json, the tokenizer, and Arrow files of token ids.
'andrea train --text' makes one too; prepare it on its own to train several models
on it, to look at it, or to choose the tokenizer.`,
		Example: `  andrea data prepare --text ~/books
  andrea data verify tokens/books-0123456789ab`,
	}, dataPrepareCommand(o), dataVerifyCommand(o))
}

// prepareFlags are the flags of 'andrea data prepare'.
type prepareFlags struct {
	text      []string
	out       string
	tokenizer string
	json      bool
}

func dataPrepareCommand(o outside) *cobra.Command {
	var f prepareFlags
	c := &cobra.Command{
		Use:   "prepare --text PATH...",
		Short: "Make a token dataset of files and folders of text",
		Long: `Make a token dataset of files and folders of text.

Every file is a document; hidden files, links, and files that are not text are left
out and counted. The dataset gets a folder of its own below --out, named after the
text and a fingerprint of all that decides its tokens: the same text is prepared
once and found again. It appears as a whole or not at all.

Tokenizers: harris:N learns N segments from a sample of the text (V = N + 257 ids);
bytes takes every byte as an id (V = 257); a path names the tokenizer.json of
another dataset or checkpoint, so that a model can go on with new text.`,
		Example: `  andrea data prepare --text ~/books
  andrea data prepare --text ~/books ~/letters --out /mnt/tokens --tokenizer harris:8192
  andrea data prepare --text new/ --tokenizer runs/demo/checkpoints/step-00000050/tokenizer.json
  andrea train --data "$(andrea data prepare --text ~/books --json | jq -r .dir)"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f.text = append(f.text, args...)
			return dataPrepare(c.Context(), o, f)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.text, "text", nil, "files or folders of text; more can follow")
	flags.StringVar(&f.out, "out", "tokens", "folder in which the dataset's folder is made")
	flags.StringVar(&f.tokenizer, "tokenizer", "harris:2048", "bytes, harris:N, or the path of a tokenizer.json")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	return c
}

// datasetFacts are what is said of a dataset.
type datasetFacts struct {
	Dir         string `json:"dir"`
	Fingerprint string `json:"fingerprint"`
	Source      string `json:"source"` // fingerprint of the text
	Documents   uint64 `json:"documents"`
	Tokens      uint64 `json:"tokens"`
	Vocab       int    `json:"vocab"`
	Tokenizer   string `json:"tokenizer"`
	Shards      int    `json:"shards"`
	Bytes       int64  `json:"bytes"` // of the shards
}

func factsOf(dir string, info arrowfile.Info) datasetFacts {
	f := datasetFacts{
		Dir: dir, Fingerprint: info.Fingerprint, Source: info.Source, Documents: info.Documents, Tokens: info.Tokens,
		Vocab: info.Vocab, Tokenizer: info.Tokenizer, Shards: len(info.Shards),
	}
	for _, s := range info.Shards {
		f.Bytes += s.Bytes
	}
	return f
}

// String is the facts as lines.
func (f datasetFacts) String() string {
	return fmt.Sprintf(`dataset      %s
documents    %s
tokens       %s in %s bytes, %d Arrow file(s)
tokenizer    %s, V = %d
fingerprint  %s
`, f.Dir, count(f.Documents), count(f.Tokens), count(f.Bytes), f.Shards, f.Tokenizer, f.Vocab, f.Fingerprint)
}

func dataPrepare(ctx context.Context, o outside, f prepareFlags) error {
	if len(f.text) == 0 {
		return badInput(errors.New("there is nothing to prepare: give --text with files or folders of text"))
	}
	options := prepare.Options{FS: o.fs, Paths: f.text, Out: f.out}
	if err := chooseTokenizer(o.fs, f.tokenizer, &options); err != nil {
		return badInput(err)
	}
	show := newScreen(o, f.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	options.Progress = show.Phase
	r, err := prepare.Text(guard.preparing, options)
	show.close()
	if err != nil {
		return interrupted(guard, inputOrDisk(err), "no dataset was made: type the same command again")
	}
	result := struct {
		datasetFacts
		Reused    bool   `json:"reused"`
		TextBytes int64  `json:"text_bytes"`
		Skipped   string `json:"skipped"`
	}{factsOf(r.Dir, r.Info), r.Reused, r.TextBytes, r.Skipped.String()}
	return o.report(f.json, result, preparedText(result.datasetFacts, r))
}

// preparedText says what was made, of what, and what to type next.
func preparedText(facts datasetFacts, r prepare.Result) string {
	var b strings.Builder
	b.WriteString(facts.String())
	fmt.Fprintf(&b, "text         %s bytes, %.2f a token; left out: %s\n", count(r.TextBytes), float64(r.TextBytes)/float64(facts.Tokens), r.Skipped)
	if r.Reused {
		b.WriteString("the text has not changed: the dataset was there already, and is intact\n")
	}
	fmt.Fprintf(&b, "train with   %s train --data %s\n", commandName(), facts.Dir)
	return b.String()
}

// chooseTokenizer sets the tokenizer that a person asks for by kind or by path.
func chooseTokenizer(fsys vfs.FS, asked string, to *prepare.Options) error {
	spec, err := tokenizer.ParseSpec(asked)
	if err == nil {
		to.Tokenizer = spec
		return nil
	}
	file, readErr := vfs.ReadFile(fsys, asked, checkpoints.MaxTokenizerBytes)
	switch {
	case errors.Is(readErr, fs.ErrNotExist):
		return fmt.Errorf("%w; and there is no file of that name", err)
	case readErr != nil:
		return fmt.Errorf("reading the tokenizer: %w", readErr)
	}
	t, err := tokenizer.Parse(file)
	if err != nil {
		return fmt.Errorf("reading the tokenizer %s: %w", asked, err)
	}
	to.Tokenizer, to.TokenizerFile = t.Spec(), file
	return nil
}

func dataVerifyCommand(o outside) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every file, batch and row of a dataset",
		Long: `Check every file, batch and row of a dataset, and print its fingerprint.

Everything is read: sizes and SHA-256 of the files, the tokenizer against the tokens,
every record batch through the Arrow library, every id against the vocabulary, every
document's beginning. Equal fingerprints are equal datasets; a job is pinned to one.
Exit code 2 means damaged, and the message names the file.`,
		Example: `  andrea data verify tokens/books-0123456789ab
  andrea data verify tokens/books-0123456789ab --json | jq -r .fingerprint`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error { return dataVerify(c.Context(), o, args[0], json) },
	}
	c.Flags().BoolVar(&json, "json", false, "print the result as JSON, a fault too")
	return c
}

func dataVerify(ctx context.Context, o outside, dir string, json bool) error {
	show := newScreen(o, json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	phase := "verifying " + dir
	read := &reading{FS: o.fs, ctx: guard.preparing, progress: func(done int64) { show.Phase(phase, done, 0) }}
	info, err := verifyDataset(guard.preparing, read, dir)
	show.close()
	if guard.preparing.Err() != nil && err != nil {
		return interrupted(guard, err, "the dataset was not verified to its end")
	}
	result := struct {
		datasetFacts
		Intact bool   `json:"intact"`
		Fault  string `json:"fault,omitempty"`
	}{factsOf(dir, info), err == nil, ""}
	if err != nil {
		result.Fault = err.Error()
	}
	if err == nil || json {
		if err := o.report(json, result, result.datasetFacts.String()+"intact       every file, batch and row was read\n"); err != nil {
			return err
		}
	}
	return badInput(err)
}

// verifyDataset reads all of a dataset. What it says of the dataset it returns with
// a fault too, as far as it is known.
func verifyDataset(ctx context.Context, fsys vfs.FS, dir string) (info arrowfile.Info, err error) {
	data, err := launch.OpenData(fsys, dir)
	if err != nil {
		return info, err
	}
	err = data.Verify(ctx)
	return data.Dataset.Info(), errors.Join(err, data.Close())
}
