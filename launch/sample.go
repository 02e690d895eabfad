package launch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

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

// Sample lets the checkpoint of a step write text. The result begins after the
// prompt.
func Sample(ctx context.Context, env Environment, dir string, step int64, s Sampling) (text string, err error) {
	reader, err := dirstore.Open(env.FS, filepath.Join(dir, checkpointsDir)).OpenStep(int(step))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	t, err := tokenizer.Parse(reader.Tokenizer())
	if err != nil {
		return "", fmt.Errorf("reading the tokenizer of checkpoint %d: %w", step, err)
	}
	config := reader.Manifest().Model
	engine, err := env.Engine.Open(config, 1, 1)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := load(engine, config, reader); err != nil {
		return "", err
	}
	var ids []uint32
	err = generate.Text(ctx, engine, generate.Options{
		Context: config.Context, ModelVocab: config.Vocab, Vocab: t.Vocab(), Prompt: t.Encode(nil, []byte(s.Prompt)),
		MaxTokens: s.MaxTokens, Temperature: s.Temperature, TopK: s.TopK, Seed: s.Seed,
	}, func(id uint32) error { ids = append(ids, id); return nil })
	if err != nil {
		return "", err
	}
	raw, err := t.Decode(nil, ids)
	return string(raw), err
}

// load puts a checkpoint's state into an engine.
func load(engine model.Engine, config model.Config, reader *dirstore.Reader) error {
	layout := model.NewLayout(config)
	params, m, v := make([]float32, model.BucketSize), make([]float32, model.BucketSize), make([]float32, model.BucketSize)
	for i := range layout.Buckets() {
		lo, hi := layout.Bucket(i)
		n := hi - lo
		if err := reader.Bucket(i, params[:n], m[:n], v[:n]); err != nil {
			return err
		}
		if err := engine.Load(i, params[:n], m[:n], v[:n]); err != nil {
			return err
		}
	}
	return nil
}
