package describe

import (
	"fmt"
	"strconv"
	"strings"
)

func (d Description) writeCluster(b *strings.Builder) {
	c := d.Cluster
	fmt.Fprintf(b, "\nExchange of %d workers in every step, through one coordinator of %d cores; %sbit/s each way at every host\n", c.Workers, c.Cores, metric(c.NIC))
	if c.Computing < c.Workers {
		fmt.Fprintf(b, "  %d of them stand by: there are %d lanes (--set batch.lanes=...)\n", c.Workers-c.Computing, d.Batch.Lanes)
	}
	amount(b, "gradient, bytes", c.Gradient, "")
	amount(b, "into the coordinator, bytes", c.In, "")
	amount(b, "out of it, bytes", c.Out, "")
	fmt.Fprintf(b, "  core-seconds of the coordinator %s\n", seconds(c.CoreSeconds))
	fmt.Fprintf(b, "  seconds: gather %s and broadcast %s in a row, or %s pipelined by bucket", seconds(c.Gather), seconds(c.Broadcast), seconds(c.Pipelined))
	if c.Bound != "" {
		fmt.Fprintf(b, ", bound by %s", c.Bound)
	}
	b.WriteByte('\n')
	fmt.Fprintf(b, "  %-14s %10s %9s   %-27s %8s %13s %10s\n", "all workers", "tokens/s", "computing", "exchange: share of a step", "speed-up", "tokens for 5 %", "pays up to")
	for _, k := range c.Kinds {
		for _, way := range []struct {
			name string
			Verdict
		}{{"in a row", k.InARow}, {"pipelined", k.Pipelined}} {
			v := way.Verdict
			fmt.Fprintf(b, "  %-14s %10s %8ss   %-18s %6.1f %% %8.2fx %14s %10d\n", k.Name, metric(k.TokensPerSecond), seconds(k.Compute), way.name, 100*v.Share, v.Speedup, commas(v.TokensFor5), v.MostWorkers)
		}
		fmt.Fprintf(b, "  %-14s 5 %% needs %sbit/s and %s cores of the coordinator, %s of each worker\n", "", metric(k.Needs.NIC), seconds(k.Needs.Cores), seconds(k.Needs.WorkerCores))
	}
}

// seconds writes a time with three digits that count.
func seconds(s float64) string { return strconv.FormatFloat(threeDigits(s), 'f', -1, 64) }

// metric writes a large number with three digits that count: 25 G, 413, 3.01 M.
func metric(x float64) string {
	x = threeDigits(x)
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if x >= unit.size {
			return strconv.FormatFloat(x/unit.size, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// threeDigits rounds to three digits that count.
func threeDigits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 2, 64), 64) // its own form of a number
	return rounded
}
