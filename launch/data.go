package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"andrea/dataset/arrowfile"
	"andrea/pipeline"
	"andrea/tokenizer"
	"andrea/vfs"
)

// Data is an open dataset with its tokenizer.
type Data struct {
	*arrowfile.Dataset
	Info          pipeline.DatasetInfo
	Tokenizer     *tokenizer.Tokenizer
	TokenizerFile []byte
}

// OpenData opens the dataset at dir.
func OpenData(fsys vfs.FS, dir string) (*Data, error) {
	set, err := arrowfile.Open(fsys, dir)
	if err != nil {
		return nil, err
	}
	d, err := readTokenizer(set)
	if err != nil {
		_ = set.Close() // the reading failed, which says more
		return nil, fmt.Errorf("opening the dataset %s: %w", dir, err)
	}
	return d, nil
}

func readTokenizer(set *arrowfile.Dataset) (*Data, error) {
	file, err := set.Tokenizer()
	if err != nil {
		return nil, err
	}
	info := set.Info()
	t, err := tokenizer.ParseMaker(file, info.Tokenizer, info.Vocab)
	if err != nil {
		return nil, err
	}
	return &Data{
		Dataset: set, Tokenizer: t, TokenizerFile: file,
		Info: pipeline.DatasetInfo{Fingerprint: info.Fingerprint, Tokenizer: info.Tokenizer, Vocab: info.Vocab, Tokens: info.Tokens},
	}, nil
}

// plan checks a job against the dataset it names, all of which it reads: a flipped bit
// would else be trained on. The path is made absolute, so that
// the run can be resumed from any folder.
func plan(env Environment, spec pipeline.JobSpec) (*pipeline.Plan, *Data, error) {
	path, err := filepath.Abs(spec.Data.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the dataset %s: %w", spec.Data.Path, err)
	}
	data, err := OpenData(env.FS, path)
	if err != nil {
		return nil, nil, err
	}
	spec.Data.Path = path
	p, err := pipeline.NewPlan(spec, data.Info)
	if err == nil { // else the cheaper check has failed
		err = data.VerifySums(env.preparing())
	}
	if err != nil {
		_ = data.Close()
		return nil, nil, err
	}
	return p, data, nil
}

// storedPlan is plan for a run that there is, whose dataset may have moved since. given tells that somebody has said
// where it lies now.
func storedPlan(env Environment, spec pipeline.JobSpec, given bool) (*pipeline.Plan, *Data, error) {
	p, data, err := plan(env, spec)
	if err != nil && !given {
		if _, gone := env.FS.Stat(spec.Data.Path); errors.Is(gone, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the dataset is not where it lay: say where it lies now with --data, or prepare it again there: 'andrea data prepare' makes the same bytes of the same text", err)
		}
	}
	return p, data, err
}

// CheckSpec finds the faults of a job whose dataset does not exist yet, except those
// that only its tokens show. tokenizerVocab is the size that the tokenizer will have; 0: it is not known
// either, and the model's own vocab is believed.
func CheckSpec(spec pipeline.JobSpec, tokenizerVocab int) error {
	const plenty = 1 << 50
	if tokenizerVocab == 0 {
		tokenizerVocab = tokenizer.Spec{}.Vocab() // the smallest that there is
		if own := spec.Model.Vocab; own != nil {
			tokenizerVocab = *own
		}
	}
	_, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Fingerprint: spec.Data.Fingerprint, Tokenizer: "to be learnt", Vocab: tokenizerVocab, Tokens: plenty})
	return err
}
