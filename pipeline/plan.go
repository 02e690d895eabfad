package pipeline

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"

	"andrea/dataset"
	"andrea/model"
)

// DatasetInfo is what a plan needs to know of a dataset.
type DatasetInfo struct {
	Fingerprint string // SHA-256 of its index
	Tokenizer   string // the tokenizer's identity
	Vocab       int    // ids are below this
	Tokens      uint64 // in all
}

// Plan is a checked job: every number that the coordinator and the workers use.
type Plan struct {
	Spec    JobSpec // resolved: the model's numbers are written out
	Model   model.Config
	Layout  model.Layout
	Dataset DatasetInfo
	Index   dataset.Index
	Sampler *dataset.Sampler

	ValidationWindows []uint64 // the windows of every evaluation, in order
}

// nameRule is a run's name as it appears in subjects and folders.
var nameRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidName reports whether a run may be called that.
func ValidName(name string) bool { return nameRule.MatchString(name) }

// maxSteps bounds the number of steps of a job.
const maxSteps = 1 << 40

// What one control message holds, of 1 MiB at most: an Answer has a loss, a token
// count and a digest for every lane, an Evaluated a number for every window.
const (
	MaxLanes       = 1 << 12
	MaxEvalWindows = 1 << 15
)

// maxMicrobatchTokens keeps the ids of a microbatch, 4 bytes each, inside one
// message of the transport.
const maxMicrobatchTokens = 200_000

// NewPlan checks the whole job against its dataset. The error lists every fault at
// once, each with its key and numbers.
func NewPlan(spec JobSpec, data DatasetInfo) (*Plan, error) {
	config, faults := spec.modelConfig(data)
	faults = append(faults, spec.faults()...)
	p := &Plan{Spec: spec, Model: config, Dataset: data}
	faults = append(faults, p.indexData()...)
	if pinned := spec.Data.Fingerprint; pinned != "" && pinned != data.Fingerprint {
		faults = append(faults, fmt.Sprintf("data: the dataset %s has fingerprint %s: the job is pinned to %s", spec.Data.Path, data.Fingerprint, pinned))
	}
	if len(faults) > 0 {
		return nil, listFaults(faults)
	}
	p.Layout = model.NewLayout(config)
	if spec.Eval.Every > 0 {
		p.ValidationWindows = p.Index.ValidationWindows(spec.Eval.Windows)
	}
	p.Spec.Model, p.Spec.Data.Fingerprint = resolvedModel(config), data.Fingerprint
	return p, nil
}

func listFaults(faults []string) error {
	if len(faults) == 1 {
		return fmt.Errorf("checking the job: %s", faults[0])
	}
	return fmt.Errorf("checking the job: %d faults:\n  %s", len(faults), strings.Join(faults, "\n  "))
}

// modelConfig resolves the model section and lists its faults.
func (s JobSpec) modelConfig(data DatasetInfo) (model.Config, []string) {
	m := s.Model
	config := model.DefaultSwitches()
	var faults []string
	if m.Variant != "" && m.Variant != model.Custom {
		var err error
		if config, err = model.Variant(m.Variant); err != nil {
			return model.Config{}, []string{"model.variant: " + err.Error()}
		}
	}
	family := config
	setInt := func(dst *int, v *int) {
		if v != nil {
			*dst = *v
		}
	}
	config.Vocab = data.Vocab
	setInt(&config.DModel, m.DModel)
	setInt(&config.NHead, m.NHead)
	setInt(&config.NLayer, m.NLayer)
	setInt(&config.Context, m.Context)
	setInt(&config.Vocab, m.Vocab)
	m.applySwitches(&config)
	if shape(config) != shape(family) {
		config.Variant = model.Custom
	}
	for _, f := range config.Faults() {
		faults = append(faults, "model: "+f)
	}
	if config.Vocab > 0 && config.Vocab < data.Vocab {
		faults = append(faults, fmt.Sprintf("model: vocab %d is not above the dataset's largest id %d: the tokenizer %s has %d ids", config.Vocab, data.Vocab-1, data.Tokenizer, data.Vocab))
	}
	return config, faults
}

func (m ModelSpec) applySwitches(c *model.Config) {
	if m.Activation != nil {
		c.Activation = model.Activation(*m.Activation)
	}
	if m.EmbedNorm != nil {
		c.EmbedNorm = *m.EmbedNorm
	}
	if m.FinalNorm != nil {
		c.FinalNorm = *m.FinalNorm
	}
	if m.NormEps != nil {
		c.NormEps = *m.NormEps
	}
}

// shape is a config without its name and switches.
func shape(c model.Config) [5]int {
	return [5]int{c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab}
}

// resolvedModel writes every number of the config out.
func resolvedModel(c model.Config) ModelSpec {
	activation := string(c.Activation)
	return ModelSpec{
		Variant: c.Variant, DModel: &c.DModel, NHead: &c.NHead, NLayer: &c.NLayer, Context: &c.Context,
		Vocab: &c.Vocab, Activation: &activation, EmbedNorm: &c.EmbedNorm, FinalNorm: &c.FinalNorm, NormEps: &c.NormEps,
	}
}

// ConfigOf returns the model of a resolved spec.
func ConfigOf(resolved JobSpec) (model.Config, error) {
	if resolved.Model.Vocab == nil {
		return model.Config{}, errors.New("reading the model of a job spec: vocab is missing: it is not a resolved spec")
	}
	config, faults := resolved.modelConfig(DatasetInfo{Vocab: *resolved.Model.Vocab})
	if len(faults) > 0 {
		return model.Config{}, listFaults(faults)
	}
	return config, nil
}

// indexData sets the index and the sampler and lists what speaks against it.
func (p *Plan) indexData() (faults []string) {
	if p.Model.Context < 1 || p.Model.Context > model.MaxContext {
		return nil // said already, and nothing can be counted without it
	}
	b := p.Spec.Batch
	faults = b.messageFaults(p.Model.Context)
	index, err := dataset.NewIndex(p.Dataset.Tokens, p.Model.Context, p.Spec.Data.Validation)
	if err != nil {
		return append(faults, splitFaults("data", err)...)
	}
	p.Index = index
	p.Sampler, err = dataset.NewSampler(index, p.Spec.batching())
	if err != nil {
		faults = append(faults, splitFaults("batch", err)...)
	}
	return faults
}

func (s JobSpec) batching() dataset.Batching {
	b := s.Batch
	return dataset.Batching{TokensPerStep: b.TokensPerStep, Lanes: b.Lanes, Microbatch: b.Microbatch, Seed: s.Seed}
}

// messageFaults lists what would not fit the messages of a step.
func (b BatchSpec) messageFaults(context int) (faults []string) {
	if ids := b.Microbatch * (context + 1); b.Microbatch <= maxMicrobatchTokens && ids > maxMicrobatchTokens {
		faults = append(faults, fmt.Sprintf("batch: microbatch %d of context %d has %d ids: at most %d fit a message", b.Microbatch, context, ids, maxMicrobatchTokens))
	}
	if b.Lanes > MaxLanes {
		faults = append(faults, fmt.Sprintf("batch: lanes %d are too many: the losses of at most %d fit a message", b.Lanes, MaxLanes))
	}
	return faults
}

// microbatchesPerLane checks a resolved spec as far as that is possible without the
// dataset, which a worker has not, and returns k.
func (s JobSpec) microbatchesPerLane() (int, error) {
	config, err := ConfigOf(s)
	if err != nil {
		return 0, err
	}
	faults := append(s.faults(), s.Batch.messageFaults(config.Context)...)
	endless := dataset.Index{Context: uint64(config.Context), Training: math.MaxUint64}
	sampler, err := dataset.NewSampler(endless, s.batching())
	if err != nil {
		faults = append(faults, splitFaults("batch", err)...)
	}
	if len(faults) > 0 {
		return 0, listFaults(faults)
	}
	return sampler.MicrobatchesPerLane(), nil
}

func splitFaults(section string, err error) (faults []string) {
	for _, line := range strings.Split(err.Error(), "\n") {
		faults = append(faults, section+": "+line)
	}
	return faults
}

// faults lists what is wrong with the values that need no dataset.
func (s JobSpec) faults() (faults []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(ValidName(s.Name), "name is %q: use 1 to 63 of a-z, 0-9 and -, not at the ends", s.Name)
	check(!strings.ContainsFunc(s.Data.Path, unicode.IsControl), "data.path is %q: it contains a control character: rename the folder", s.Data.Path)
	check(s.Steps >= 1 && s.Steps <= maxSteps, "steps is %d: must be between 1 and %d", s.Steps, int64(maxSteps))
	check(s.Eval.Every >= 0, "eval.every is %d: must not be negative", s.Eval.Every)
	check(s.Eval.Windows >= 1 && s.Eval.Windows <= MaxEvalWindows, "eval.windows is %d: must be between 1 and %d", s.Eval.Windows, MaxEvalWindows)
	check(s.Checkpoint.Every >= 1, "checkpoint.every is %d: must be at least 1", s.Checkpoint.Every)
	check(s.Checkpoint.KeepLast >= 1, "checkpoint.keep_last is %d: must be at least 1", s.Checkpoint.KeepLast)
	check(s.Engine != "", "engine is empty: must be auto, cpu, cuda or an engine class")
	if fault := s.precisionFault(); fault != "" {
		faults = append(faults, fault)
	}
	check(s.DigestEvery == 1, "digest_every is %d: must be 1: this version compares the state's digest after every step", s.DigestEvery)
	check(s.Audit >= 0 && s.Audit <= 1, "audit is %v: must be from 0 to 1: the share of the leases that a second worker computes as well", s.Audit)
	check(s.OnNonfinite == OnNonfiniteStop || s.OnNonfinite == OnNonfiniteSkip, "on_nonfinite is %q: must be %q or %q", s.OnNonfinite, OnNonfiniteStop, OnNonfiniteSkip)
	return append(faults, s.Optimizer.faults()...)
}

// precisionFault says why the job's engine cannot compute in its precision; empty: it can, as far as the job tells.
func (s JobSpec) precisionFault() string {
	kind, named := model.ClassKind(s.Engine), model.ClassPrecision(s.Engine)
	switch {
	case s.Precision != model.FP32 && s.Precision != model.BF16:
		return fmt.Sprintf("precision is %q: must be %s or %s", s.Precision, model.FP32, model.BF16)
	case named != "" && named != s.Precision:
		return fmt.Sprintf("precision is %q: the engine class %q computes %s: write one or the other", s.Precision, s.Engine, named)
	case s.Engine != model.AnyEngine && !model.KindComputes(kind, s.Precision):
		return fmt.Sprintf("precision is %q: the engine %q has %s alone: write precision: %s, or engine: cuda", s.Precision, s.Engine, model.FP32, model.FP32)
	}
	return ""
}

func (o OptimizerSpec) faults() (faults []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, "optimizer."+fmt.Sprintf(format, args...))
		}
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	finite32 := func(x float64) bool { return finite(float64(float32(x))) }
	check(finite32(o.LR) && float32(o.LR) > 0, "lr is %v: must be a positive number in fp32", o.LR)
	check(finite32(o.MinLR) && o.MinLR >= 0 && !(o.MinLR > o.LR), "min_lr is %v: must be between 0 and lr %v", o.MinLR, o.LR)
	check(o.WarmupSteps >= 0 && o.WarmupSteps <= maxSteps, "warmup_steps is %d: must be between 0 and %d", o.WarmupSteps, int64(maxSteps))
	check(finite32(o.Eps) && float32(o.Eps) > 0, "eps is %v: must be a positive number in fp32", o.Eps)
	check(finite32(o.WeightDecay) && o.WeightDecay >= 0, "weight_decay is %v: must be a number in fp32, not negative", o.WeightDecay)
	check(finite(o.GradClip) && o.GradClip >= 0, "grad_clip is %v: must be a number, not negative", o.GradClip)
	if len(o.Betas) != 2 {
		check(false, "betas has %d values: must have 2", len(o.Betas))
		return faults
	}
	for i, b := range o.Betas {
		check(b >= 0 && float32(b) < 1, "betas[%d] is %v: must be at least 0 and below 1 in fp32", i, b)
	}
	return faults
}
