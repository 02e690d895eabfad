package launch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/generate"
	"andrea/model"
	"andrea/tokenizer"
)

// Sampling says what text a model is to write.
type Sampling struct {
	Prompt      string
	MaxTokens   int
	Temperature float64
	TopK        int
	Seed        uint64
}

// Author is the model of a checkpoint, loaded to write text.
type Author struct {
	Step      int               // of the checkpoint
	Dir       string            // the checkpoint's folder
	Damaged   []dirstore.Damage // newer checkpoints that were passed over
	config    model.Config
	tokenizer *tokenizer.Tokenizer
	engine    model.Engine
}

// OpenCheckpoint loads the model of the checkpoint in dir, whose name is that of a
// step, after verifying all of it.
func OpenCheckpoint(env Environment, dir string) (*Author, error) {
	step, ok := checkpoints.ParseStepFolder(filepath.Base(dir))
	if !ok {
		return nil, fmt.Errorf("opening the checkpoint %s: its folder is not named after a step, such as %s: give it that name back", dir, checkpoints.StepFolder(100))
	}
	store := dirstore.Open(env.FS, filepath.Dir(dir))
	reader, err := store.OpenStep(step)
	if err != nil {
		return nil, err
	}
	return newAuthor(env, store, reader)
}

// OpenNewest loads the model of the newest intact checkpoint of the run in dir.
func OpenNewest(env Environment, dir string) (*Author, error) {
	store := dirstore.Open(env.FS, filepath.Join(dir, checkpointsDir))
	reader, damaged, err := store.Newest(nil)
	if err != nil {
		return nil, err
	}
	a, err := newAuthor(env, store, reader)
	if err != nil {
		return nil, err
	}
	a.Damaged = damaged
	return a, nil
}

// newAuthor loads what reader has verified, and closes it.
func newAuthor(env Environment, store *dirstore.Store, reader *dirstore.Reader) (a *Author, err error) {
	defer func() { err = errors.Join(err, reader.Close()) }()
	m := reader.Manifest()
	a = &Author{Step: m.Step, Dir: store.Path(m.Step), config: m.Model}
	if a.tokenizer, err = tokenizer.Parse(reader.Tokenizer()); err != nil {
		return nil, fmt.Errorf("reading the tokenizer of %s: %w", a.Dir, err)
	}
	if a.engine, err = env.Engine.Open(m.Model, 1, 0); err != nil {
		return nil, err
	}
	if err := loadWeights(a.engine, m.Model, reader); err != nil {
		return nil, errors.Join(err, a.engine.Close())
	}
	return a, nil
}

// Write lets the model write and hands the bytes of each token to emit, which may end
// inside a character. The text begins after the prompt. It ends with s.MaxTokens
// tokens, or before when the model ends its document; with ctx's error when ctx is
// done, and with emit's as it is.
func (a *Author) Write(ctx context.Context, s Sampling, emit func(text []byte) error) error {
	var text []byte
	return generate.Text(ctx, a.engine, generate.Options{
		Context: a.config.Context, ModelVocab: a.config.Vocab, Vocab: a.tokenizer.Vocab(),
		Prompt:    a.tokenizer.Encode(nil, []byte(s.Prompt)),
		MaxTokens: s.MaxTokens, Temperature: s.Temperature, TopK: s.TopK, Seed: s.Seed,
	}, func(id uint32) (err error) {
		if text, err = a.tokenizer.Decode(text[:0], []uint32{id}); err != nil {
			return err
		}
		return emit(text)
	})
}

// Close lets go of the engine.
func (a *Author) Close() error { return a.engine.Close() }

// Sample lets the checkpoint of a step of the run in dir write text. The result
// begins after the prompt.
func Sample(ctx context.Context, env Environment, dir string, step int64, s Sampling) (text string, err error) {
	a, err := OpenCheckpoint(env, filepath.Join(dir, checkpointsDir, checkpoints.StepFolder(int(step))))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	var raw []byte
	err = a.Write(ctx, s, func(text []byte) error {
		raw = append(raw, text...)
		return nil
	})
	return string(raw), err
}

// loadWeights puts a checkpoint's weights into an engine without slots. The moments are
// read to verify the bucket with them.
func loadWeights(engine model.Engine, config model.Config, reader *dirstore.Reader) error {
	layout := model.NewLayout(config)
	params, m, v := make([]float32, model.BucketSize), make([]float32, model.BucketSize), make([]float32, model.BucketSize)
	for i := range layout.Buckets() {
		lo, hi := layout.Bucket(i)
		n := hi - lo
		if err := reader.Bucket(i, params[:n], m[:n], v[:n]); err != nil {
			return err
		}
		if err := engine.Load(i, params[:n], nil, nil); err != nil {
			return err
		}
	}
	return nil
}
