package cli

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"andrea/cpuengine"
	"andrea/describe"
	"andrea/model"
	"andrea/pipeline"
)

func modelCommand(o outside) *cobra.Command {
	return group(&cobra.Command{
		Use:     "model",
		Short:   "Say what a shape of a model means",
		Long:    "Say what a shape of a model means before anything is trained.",
		Example: "  andrea model describe 120m",
	}, modelDescribeCommand(o))
}

// describeFlags are the flags of 'andrea model describe'.
type describeFlags struct {
	vocab   int
	set     []string
	json    bool
	cluster clusterFlags
}

func modelDescribeCommand(o outside) *cobra.Command {
	var f describeFlags
	c := &cobra.Command{
		Use:   "describe VARIANT",
		Short: "Shapes, parameters, arithmetic, memory and files of a model",
		Long: `Say of a model: the five stages of its attention with their shapes, parameters and
arithmetic by part, the memory that a run on this machine takes, the sizes of a
checkpoint's files, and the loss before training.

VARIANT is 12m, 120m, 480m, or custom with a shape of your own. --set takes the keys
that 'andrea train' takes; batch.microbatch and batch.lanes decide memory. The
vocabulary is the variant's unless --vocab gives the size of another tokenizer.

With --workers it also says what the exchange of gradients takes: bytes through the
coordinator, its core-seconds, the share of a step, the tokens_per_step at which that
share is 5 %, and up to how many workers the run gets faster. 'in a row' gathers, then
broadcasts; 'pipelined' does both at once, bucket by bucket. --gflops or
--tokens-per-second say how fast one worker trains alone ('andrea bench' measures it);
without them three kinds of workers are compared. docs/scaling.md has the formula, and
the measurements that it stands on.`,
		Example: `  andrea model describe 120m
  andrea model describe 12m --set batch.microbatch=4 --set batch.lanes=16
  andrea model describe custom --vocab 2305 --set model.d_model=256 --set model.n_head=4 \
      --set model.n_layer=6 --set model.context=512
  andrea model describe 480m --json | jq .memory.total
  andrea model describe 120m --workers 8 --nic 25G --tokens-per-step 262144 --gflops 250`,
		Args: oneArgument,
		RunE: func(c *cobra.Command, args []string) error {
			vocab := f.vocab
			if !c.Flags().Changed("vocab") {
				vocab = familyVocab(args[0])
			}
			if c.Flags().Changed("tokens-per-step") {
				f.set = append(f.set, fmt.Sprintf("batch.tokens_per_step=%d", f.cluster.tokensPerStep))
			}
			return describeModel(o, args[0], vocab, f)
		},
	}
	flags := c.Flags()
	flags.IntVar(&f.vocab, "vocab", 0, "size of the tokenizer's vocabulary: N + 257 for harris:N (default: the variant's)")
	flags.StringArrayVar(&f.set, "set", nil, "set one key of the job, such as model.d_model=256; can be repeated")
	flags.BoolVar(&f.json, "json", false, "print the description as JSON")
	f.cluster.add(c)
	return c
}

// familyVocab is the vocabulary of a variant, 0 if it has none of its own.
func familyVocab(variant string) int {
	c, err := model.Variant(variant)
	if err != nil {
		return 0
	}
	return c.Vocab
}

func describeModel(o outside, variant string, vocab int, f describeFlags) error {
	plan, err := f.plan(variant, vocab)
	if err != nil {
		return badInput(err)
	}
	batch := plan.Spec.Batch
	threads := min(runtime.GOMAXPROCS(0), cpuengine.MaxThreads)
	bytes, err := cpuengine.Bytes(plan.Model, cpuengine.Options{Microbatch: batch.Microbatch, Slots: model.Slots(batch.Lanes), Threads: threads})
	if err != nil {
		return badInput(err)
	}
	network, err := f.cluster.network(plan.Model)
	if err != nil {
		return badInput(err)
	}
	d, err := describe.Of(plan.Model, describe.Setting{
		Microbatch: batch.Microbatch, Lanes: batch.Lanes, TokensPerStep: batch.TokensPerStep, Threads: threads,
		EngineBytes: bytes, GCPercent: gcPercentOf(heldBytes(plan.Model, bytes)),
		Network: network,
	})
	if err != nil {
		return badInput(err)
	}
	return o.report(f.json, d, d.Text())
}

// plan is a job with the shape, checked as 'andrea train' checks it, on a dataset
// that is large enough for every shape.
func (f describeFlags) plan(variant string, vocab int) (*pipeline.Plan, error) {
	spec := pipeline.DefaultJobSpec()
	spec.Model.Variant = variant
	var errs []error
	tokensGiven := false
	for _, assignment := range f.set {
		errs = append(errs, spec.Set(assignment))
		tokensGiven = tokensGiven || strings.HasPrefix(assignment, "batch.tokens_per_step=")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	data := pipeline.DatasetInfo{Tokenizer: fmt.Sprintf("with --vocab %d", vocab), Vocab: vocab, Tokens: 1 << 50}
	if !tokensGiven {
		spec.Batch.TokensPerStep = fittingTokens(spec)
	}
	return pipeline.NewPlan(spec, data)
}

// fittingTokens is the default of tokens_per_step, or the smallest number that fits
// the context, the microbatch and the lanes where the default does not.
func fittingTokens(spec pipeline.JobSpec) int {
	b := spec.Batch
	context := 0
	if c, err := model.Variant(spec.Model.Variant); err == nil {
		context = c.Context
	}
	if spec.Model.Context != nil {
		context = *spec.Model.Context
	}
	if context < 1 || context > model.MaxContext || b.Microbatch < 1 || b.Microbatch > cpuengine.MaxMicrobatch || b.Lanes < 1 || b.Lanes > pipeline.MaxLanes {
		return b.TokensPerStep // which is not what is wrong
	}
	one := context * b.Microbatch * b.Lanes
	return max(1, b.TokensPerStep/one) * one
}
