package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"andrea/describe"
	"andrea/model"
	"andrea/pipeline"
)

// clusterFlags are the flags of 'andrea model describe' that are about several hosts.
type clusterFlags struct {
	workers         int
	nic             string
	cores           int
	tokensPerStep   int
	gflops          float64
	tokensPerSecond float64
}

func (f *clusterFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&f.workers, "workers", 0, "describe the exchange of so many workers, each on a host of its own (default: none)")
	flags.StringVar(&f.nic, "nic", "25G", "what every host's network carries each way, in bits a second: 1G, 25G, 400G")
	flags.IntVar(&f.cores, "cores", 8, "processor cores of the coordinator")
	flags.IntVar(&f.tokensPerStep, "tokens-per-step", 0, "the same as --set batch.tokens_per_step=N")
	flags.Float64Var(&f.gflops, "gflops", 0, "what one worker computes alone, in useful 10^9 operations a second (default: three kinds)")
	flags.Float64Var(&f.tokensPerSecond, "tokens-per-second", 0, "the same in tokens a second")
}

// network is what the flags say; nil: nothing.
func (f clusterFlags) network(c model.Config) (*describe.Network, error) {
	if f.workers == 0 {
		return nil, nil
	}
	fail := func(format string, args ...any) (*describe.Network, error) {
		return nil, fmt.Errorf("describing a cluster: "+format, args...)
	}
	nic, err := parseBits(f.nic)
	switch speed := max(f.gflops, f.tokensPerSecond); {
	case err != nil:
		return fail("--nic: %w", err)
	case f.workers < 1 || f.workers > pipeline.MaxLanes:
		return fail("--workers is %d: must be between 1 and %d", f.workers, pipeline.MaxLanes)
	case f.cores < 1 || f.cores > 1<<16:
		return fail("--cores is %d: must be between 1 and %d", f.cores, 1<<16)
	case f.gflops != 0 && f.tokensPerSecond != 0:
		return fail("--gflops and --tokens-per-second are both given: give one")
	case f.gflops < 0 || f.tokensPerSecond < 0 || !(speed < 1e15):
		return fail("--gflops is %v and --tokens-per-second %v: must be positive numbers", f.gflops, f.tokensPerSecond)
	}
	n := &describe.Network{Workers: f.workers, NIC: nic, Cores: f.cores, Kinds: describe.ReferenceWorkers(c)}
	given := describe.Worker{Name: "as given", TokensPerSecond: f.tokensPerSecond}
	if f.gflops > 0 {
		given.TokensPerSecond = 1e9 * f.gflops / float64(c.FLOPsPerToken())
	}
	if given.TokensPerSecond > 0 {
		n.Kinds = []describe.Worker{given}
	}
	return n, nil
}

// parseBits reads a rate such as 25G, in bits a second.
func parseBits(text string) (float64, error) {
	scale := 1.0
	number := text
	for unit, size := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
		if before, found := strings.CutSuffix(text, unit); found {
			number, scale = before, size
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if x *= scale; err != nil || math.IsNaN(x) || x < 1e3 || x > 1e15 {
		return 0, fmt.Errorf("%.40q is no rate of a network: write for example 25G", text)
	}
	return x, nil
}
