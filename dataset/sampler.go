package dataset

import (
	"errors"
	"fmt"
	"math"
)

// Maxima of a step's shape. They are far above any use and keep every product below 2^64.
const (
	maxLanes         = 1 << 16
	maxMicrobatch    = 1 << 16
	maxTokensPerStep = 1 << 40
)

// Batching is the part of a job spec that fixes which windows a step consumes and how they are cut:
// TokensPerStep = Lanes · k · Microbatch · T for a whole number k >= 1, the microbatches of a lane.
type Batching struct {
	TokensPerStep int    // input tokens of one step
	Lanes         int    // a power of two
	Microbatch    int    // windows of one forward/backward pass
	Seed          uint64 // keys the order of the windows
}

// Sampler gives the windows of every (step, lane, microbatch) as a pure function of the Index and
// the Batching. With
//
//	windowsPerStep = TokensPerStep / T       windowsPerLane = windowsPerStep / Lanes
//
// the j-th window of a microbatch has the position, and at it stands the window,
//
//	p = (step-1)·windowsPerStep + lane·windowsPerLane + microbatch·Microbatch + j
//	w = permutation of 0..Training-1 keyed by (Seed, p / Training), at p % Training
//
// and p / Training is its epoch, from 0. So an epoch holds every training window exactly once, and
// the last windows of one epoch and the first of the next may share a step. The whole position of a
// run in its data is its step number.
type Sampler struct {
	index      Index
	seed       uint64
	microbatch uint64
	perLane    uint64 // windows
	perStep    uint64 // windows
	lanes      uint64
}

// NewSampler checks the batching against the index. The error joins all faults: values out of
// range, lanes that are no power of two, tokens that do not divide into whole microbatches on every
// lane, fewer training windows than one step needs.
func NewSampler(ix Index, b Batching) (*Sampler, error) {
	if faults := b.faults(ix); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	perStep := uint64(b.TokensPerStep) / ix.Context
	return &Sampler{
		index:      ix,
		seed:       b.Seed,
		microbatch: uint64(b.Microbatch),
		perLane:    perStep / uint64(b.Lanes),
		perStep:    perStep,
		lanes:      uint64(b.Lanes),
	}, nil
}

func (b Batching) faults(ix Index) []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	inRange := func(name string, value, limit int) {
		if value < 1 || value > limit {
			fault("%s: %d is not in 1..%d", name, value, limit)
		}
	}
	inRange("tokens_per_step", b.TokensPerStep, maxTokensPerStep)
	inRange("microbatch", b.Microbatch, maxMicrobatch)
	inRange("lanes", b.Lanes, maxLanes)
	if b.Lanes > 0 && b.Lanes&(b.Lanes-1) != 0 {
		fault("lanes: %d is not a power of two", b.Lanes)
	}
	if ix.Context < 1 || ix.Context > maxContext {
		fault("index: context %d is not in 1..%d", ix.Context, maxContext)
	}
	if len(faults) > 0 {
		return faults
	}
	unit := uint64(b.Lanes) * uint64(b.Microbatch) * ix.Context
	if rest := uint64(b.TokensPerStep) % unit; rest != 0 {
		fault("tokens_per_step: %d is not a multiple of lanes %d · microbatch %d · context %d = %d: the remainder is %d",
			b.TokensPerStep, b.Lanes, b.Microbatch, ix.Context, unit, rest)
	}
	if need := uint64(b.TokensPerStep) / ix.Context; ix.Training < need {
		fault("dataset: it has %d training windows (%d more are held out for validation), but one step needs %d: use more text or fewer tokens_per_step",
			ix.Training, ix.Validation, need)
	}
	return faults
}

// WindowsPerStep returns how many windows one step consumes.
func (s *Sampler) WindowsPerStep() int { return int(s.perStep) }

// MicrobatchesPerLane returns k, the number of microbatches of every lane of every step.
func (s *Sampler) MicrobatchesPerLane() int { return int(s.perLane / s.microbatch) }

// Append appends to dst the window numbers of one microbatch, in order, and returns the longer
// slice. Steps count from 1, lanes and the microbatches of a lane from 0. It fails when there is no
// such step, lane or microbatch, and then returns dst as it was.
func (s *Sampler) Append(dst []uint64, step uint64, lane, microbatch int) ([]uint64, error) {
	if err := s.checkPlace(step, lane, microbatch); err != nil {
		return dst, err
	}
	first := (step-1)*s.perStep + uint64(lane)*s.perLane + uint64(microbatch)*s.microbatch
	epoch := first / s.index.Training
	order := NewPermutation(s.index.Training, s.seed, epoch)
	for p := first; p < first+s.microbatch; p++ {
		if e := p / s.index.Training; e != epoch {
			epoch = e
			order = NewPermutation(s.index.Training, s.seed, epoch)
		}
		dst = append(dst, order.At(p%s.index.Training))
	}
	return dst, nil
}

func (s *Sampler) checkPlace(step uint64, lane, microbatch int) error {
	if step < 1 || step > s.maxStep() {
		return fmt.Errorf("sampler: step %d is not in 1..%d", step, s.maxStep())
	}
	if lane < 0 || uint64(lane) >= s.lanes {
		return fmt.Errorf("sampler: lane %d is not in 0..%d", lane, s.lanes-1)
	}
	if microbatch < 0 || microbatch >= s.MicrobatchesPerLane() {
		return fmt.Errorf("sampler: microbatch %d is not in 0..%d", microbatch, s.MicrobatchesPerLane()-1)
	}
	return nil
}

// maxStep keeps every position of a step below 2^63.
func (s *Sampler) maxStep() uint64 { return math.MaxInt64 / s.perStep }

// Epoch returns the epoch, from 0, of the first window of a step. Step 0, the state before training,
// counts as epoch 0; steps beyond the last possible one give the last possible epoch.
func (s *Sampler) Epoch(step uint64) uint64 {
	step = min(max(step, 1), s.maxStep())
	return (step - 1) * s.perStep / s.index.Training
}
