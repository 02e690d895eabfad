package prepare

import (
	"context"

	"andrea/dataset/textdir"
	"andrea/tokenizer"
)

// learn learns the tokenizer that o asks for from a sample of the documents. Documents are in Walk's
// order, which does not depend on the order of the paths, and so the sample does not either.
func learn(ctx context.Context, o Options, documents []textdir.Document) (*tokenizer.Tokenizer, error) {
	learner, err := tokenizer.NewLearner(o.Tokenizer, o.SampleBytes)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(documents))
	for i, d := range documents {
		sizes[i] = d.Bytes
	}
	o.Progress(PhaseLearn, 0, 100)
	for _, i := range tokenizer.ChooseSample(sizes, o.SampleBytes, o.Seed) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := documents[i].Read()
		if err != nil {
			return nil, err
		}
		learner.Add(text)
	}
	return learner.Learn(func(p tokenizer.Progress) error {
		o.Progress(PhaseLearn, learnt(p, o.Tokenizer.Segments), 100)
		return ctx.Err()
	})
}

// learnt is about how far learning n segments has come, in percent: they grow past n by a quarter, which
// takes most of the time, and shrink to n.
func learnt(p tokenizer.Progress, n int) int64 {
	const grown = 80 // percent
	peak, above := n+n/4, max(1, n/4)
	switch p.Stage {
	case tokenizer.StageGrow:
		return int64(min(grown, grown*p.Segments/peak))
	case tokenizer.StagePrune:
		return int64(min(100, max(grown, grown+(100-grown)*(peak-p.Segments)/above)))
	}
	return 0
}
