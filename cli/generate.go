package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"andrea/launch"
)

// generateFlags are the flags of 'andrea generate'.
type generateFlags struct {
	checkpoint string
	run        string
	json       bool
	launch.Sampling
}

func generateCommand(o outside) *cobra.Command {
	var f generateFlags
	c := &cobra.Command{
		Use:   "generate --run RUN | --checkpoint DIR",
		Short: "Let a trained model write text",
		Long: `Let a trained model write text, token by token, after a prompt.

--run takes the newest intact checkpoint of a run, which may be training; --checkpoint
takes a certain one. The same checkpoint, prompt and flags give the same text. The text
ends after --tokens, or where the model ends its document. Bytes that are no UTF-8 and
control characters are shown as U+FFFD.

The temperature divides the logits: below 1 likely tokens become likelier, 0 always
takes the likeliest. --top-k leaves only the K likeliest to choose from, 0 all.`,
		Example: `  andrea generate --run runs/demo --prompt "The river "
  andrea generate --run demo --tokens 500 --temperature 0.6 --seed 7
  andrea generate --checkpoint runs/demo/checkpoints/step-00000050 --json | jq -r .text`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return generateText(c.Context(), o, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "folder of a checkpoint")
	flags.StringVar(&f.run, "run", "", "folder of a run, or its name below runs/")
	flags.StringVar(&f.Prompt, "prompt", "", "text to go on from (default: the model begins a document)")
	flags.IntVar(&f.MaxTokens, "tokens", 256, "most tokens to write")
	flags.Float64Var(&f.Temperature, "temperature", 0.8, "how freely tokens are chosen, 0 or more")
	flags.IntVar(&f.TopK, "top-k", 40, "choose among so many of the likeliest tokens; 0: all")
	flags.Uint64Var(&f.Seed, "seed", 1, "chooses one of the texts that the model could write")
	flags.BoolVar(&f.json, "json", false, "print the text and how it was made as JSON, at the end")
	return c
}

func generateText(ctx context.Context, o outside, f generateFlags) error {
	if f.run != "" && f.checkpoint != "" {
		return badInput(errors.New("which model is to write: both --run and --checkpoint are given: give one of them"))
	}
	if f.run == "" && f.checkpoint == "" {
		return badInput(errors.New("which model is to write: give --run with a run, or --checkpoint with the folder of a checkpoint"))
	}
	if o.engineErr != nil {
		return exitError{exitFailed, o.engineErr}
	}
	show := newScreen(o, f.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	author, err := f.load(guard.preparing, o, show)
	show.close()
	if err != nil {
		return interrupted(guard, badInput(err), "nothing was written")
	}
	return errors.Join(f.write(guard, o, author), author.Close())
}

// load opens the model that the flags name.
func (f generateFlags) load(ctx context.Context, o outside, show *screen) (*launch.Author, error) {
	read := &reading{FS: o.fs, ctx: ctx, progress: func(done int64) { show.Phase("loading the model", done, 0) }}
	env := launch.Environment{FS: read, Engine: o.engine}
	if f.checkpoint != "" {
		dir, _, err := checkpointAt(o.fs, f.checkpoint)
		if err != nil {
			return nil, err
		}
		return launch.OpenCheckpoint(env, dir)
	}
	dir, err := findRun(o.fs, f.run)
	if err != nil {
		return nil, err
	}
	author, err := launch.OpenNewest(env, dir)
	if err != nil {
		return nil, err
	}
	for _, d := range author.Damaged {
		show.note("the checkpoint of step %d is passed over: %v", d.Step, d.Reason)
	}
	return author, nil
}

// How a text ended.
const (
	endTokens      = "tokens"      // --tokens were written
	endDocument    = "document"    // the model ended its document
	endInterrupted = "interrupted" // by a signal
)

// write streams the text to standard output, or prints all of it as JSON.
func (f generateFlags) write(guard *guard, o outside, author *launch.Author) error {
	var collected strings.Builder
	stream := &textStream{out: &collected}
	if !f.json {
		stream = &textStream{out: o.stdout, safe: true}
		if err := stream.write([]byte(f.Prompt)); err != nil {
			return unwritten(err)
		}
	}
	tokens, end := 0, endTokens
	err := author.Write(guard.preparing, f.Sampling, func(text []byte) error {
		tokens++
		return unwritten(stream.write(text))
	})
	var coded exitError
	switch {
	case errors.As(err, &coded):
		return err
	case guard.preparing.Err() != nil:
		end = endInterrupted
	case err != nil:
		return badInput(err)
	case tokens < f.MaxTokens:
		end = endDocument
	}
	if err := stream.flush(); err != nil {
		return unwritten(err)
	}
	if err := f.finish(o, author, collected.String(), tokens, end); err != nil {
		return err
	}
	if end == endInterrupted {
		return exitError{guard.code(), nil}
	}
	return nil
}

// unwritten is the error of standard output, if any.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return exitError{exitFailed, fmt.Errorf("writing the text: %w", err)}
}

// finish ends the last line, or prints the JSON.
func (f generateFlags) finish(o outside, author *launch.Author, text string, tokens int, end string) error {
	if !f.json {
		_, err := io.WriteString(o.stdout, "\n")
		return unwritten(err)
	}
	return o.report(true, generated{
		Checkpoint: author.Dir, Step: author.Step, Prompt: f.Prompt, Text: text, Tokens: tokens, End: end,
		Temperature: f.Temperature, TopK: f.TopK, Seed: f.Seed,
	}, "")
}

// generated is a text as JSON.
type generated struct {
	Checkpoint  string  `json:"checkpoint"`
	Step        int     `json:"step"`
	Prompt      string  `json:"prompt"`
	Text        string  `json:"text"` // after the prompt
	Tokens      int     `json:"tokens"`
	End         string  `json:"end"`
	Temperature float64 `json:"temperature"`
	TopK        int     `json:"top_k"`
	Seed        uint64  `json:"seed"`
}
