package describe

import (
	"math"

	"andrea/model"
)

// What moving a gradient costs, in core-seconds for 10^9 bytes. docs/scaling.md says where the numbers come from.
const (
	gatherCost = 0.62 + checkCost + digestCost + addCost // of the coordinator, for what comes in: transport, CRC, digest, sum
	serveCost  = 0.51 + checkCost                        // of the coordinator, for what goes out
	pullCost   = 0.41 + checkCost + digestCost           // of a worker, for what it pulls, on one core
	rootCost   = digestCost + squaresCost                // of the coordinator, for the summed gradient once

	checkCost   = 0.13 // CRC-32C
	digestCost  = 1.20
	addCost     = 0.37
	squaresCost = 0.39
)

const (
	// payloadShare is what TCP over Ethernet leaves of a line for data: 1,448 of 1,538 bytes.
	payloadShare = 1448. / 1538

	// connectionRate is what one connection of the transport moves one way, in bytes a second.
	connectionRate = 2.0e9

	// goodShare is the share of a step up to which the exchange counts as cheap.
	goodShare = 0.05

	// maxWorkers is where looking for the last worker that pays ends.
	maxWorkers = 1 << 12
)

// Worker is a kind of worker.
type Worker struct {
	Name            string  `json:"name"`
	TokensPerSecond float64 `json:"tokens_per_second"` // that it trains alone
}

// ReferenceWorkers are the kinds that are described where none is given: GFLOP/s of useful arithmetic as measured on
// two cores, sixteen times that, and what a large GPU is hoped to reach.
func ReferenceWorkers(c model.Config) []Worker {
	of := func(name string, gflops float64) Worker {
		return Worker{name, 1e9 * gflops / float64(c.FLOPsPerToken())}
	}
	return []Worker{of("2 CPU cores", 250), of("32 CPU cores", 4_000), of("one H200", 375_000)}
}

// Network is what decides the exchange besides the shape and the batch.
type Network struct {
	Workers int      // 1 to 4096
	NIC     float64  // of each host, each way, in bits a second
	Cores   int      // of the coordinator
	Kinds   []Worker // of workers, each described as if all were that
}

// Cluster is what the exchange of gradients through one coordinator takes in every step.
type Cluster struct {
	Workers     int     `json:"workers"`
	Computing   int     `json:"computing"` // the others stand by: there are not more lanes
	NIC         float64 `json:"nic_bits_per_second"`
	Cores       int     `json:"coordinator_cores"`
	Gradient    int64   `json:"gradient_bytes"`
	In          int64   `json:"coordinator_in_bytes"`
	Out         int64   `json:"coordinator_out_bytes"`
	CoreSeconds float64 `json:"coordinator_core_seconds"`
	Gather      float64 `json:"gather_seconds"`
	Broadcast   float64 `json:"broadcast_seconds"`
	Pipelined   float64 `json:"pipelined_seconds"` // both at once, bucket by bucket
	Bound       string  `json:"bound,omitempty"`   // what the pipelined exchange waits for
	Kinds       []Kind  `json:"kinds"`
}

// Kind is how a cluster of one kind of worker fares.
type Kind struct {
	Worker
	Compute   float64 `json:"compute_seconds"` // of the worker with the most lanes
	InARow    Verdict `json:"in_a_row"`        // gather, then broadcast
	Pipelined Verdict `json:"pipelined"`
	Needs     Needs   `json:"needs_for_5_pct"`
}

// Needs is what makes a pipelined exchange 5 % of a step.
type Needs struct {
	NIC         float64 `json:"nic_bits_per_second"` // of the coordinator, each way
	Cores       float64 `json:"coordinator_cores"`   // busy throughout the exchange
	WorkerCores float64 `json:"worker_cores"`        // of each worker, to pull
}

// Verdict is what an exchange means for the step.
type Verdict struct {
	Share       float64 `json:"share"`                       // of the step, 0 to 1
	TokensFor5  int64   `json:"tokens_per_step_for_5_pct"`   // at which the share is 5 %
	MostWorkers int     `json:"most_workers"`                // the largest power of two that is faster than its half, at this tokens_per_step
	Speedup     float64 `json:"speedup_of_workers_over_one"` // 1 computes as one worker alone
}

// exchange is the seconds of one exchange, and what the pipelined one waits for.
type exchange struct {
	gather, broadcast, pipelined float64
	bound                        string
}

// contributions is how many gradients the coordinator gets from so many workers: one each, or up to two each, less
// one, where their number is no power of two and a worker's lanes are two subtrees.
func contributions(workers, lanes int) int {
	switch {
	case workers == 1:
		return 0 // the root stays where it is
	case workers&(workers-1) == 0:
		return workers
	}
	return min(lanes, 2*workers-1)
}

// exchangeOf is the exchange of a gradient of so many bytes: the slowest of line, connection, the coordinator's cores
// and the one core that a worker pulls with.
func (n Network) exchangeOf(gradient float64, workers, lanes int) exchange {
	in, out := gradient*float64(contributions(workers, lanes)), gradient*float64(workers)
	if workers == 1 {
		return exchange{}
	}
	line := min(n.NIC/8*payloadShare, connectionRate)
	gatherCPU, serveCPU := coordinatorCPU(gradient, in, out)
	cores, pulling := float64(n.Cores), 1e-9*gradient*pullCost
	e := exchange{
		gather:    max(in/line, gatherCPU/cores),
		broadcast: max(out/line, serveCPU/cores, pulling),
		pipelined: max(in/line, out/line, (gatherCPU+serveCPU)/cores, pulling),
	}
	switch e.pipelined {
	case pulling:
		e.bound = "the core that a worker pulls with"
	case (gatherCPU + serveCPU) / cores:
		e.bound = "the coordinator's cores"
	default:
		e.bound = "the coordinator's network"
		if line == connectionRate {
			e.bound = "the coordinator's one connection"
		}
	}
	return e
}

// coordinatorCPU is the core-seconds that a coordinator spends on gathering and serving.
func coordinatorCPU(gradient, in, out float64) (gather, serve float64) {
	return 1e-9 * (float64(in*gatherCost) + float64(gradient*rootCost)), 1e-9 * out * serveCost
}

// computeOf is the seconds of the worker with the most lanes.
func computeOf(tokensPerStep float64, workers, lanes int, speed float64) float64 {
	most := (lanes + workers - 1) / workers
	return tokensPerStep * float64(most) / float64(lanes) / speed
}

// clusterOf describes the exchange of a valid batch.
func clusterOf(c model.Config, s Setting, n Network) *Cluster {
	gradient := c.Parameters() * floatBytes
	computing := min(n.Workers, s.Lanes)
	e := n.exchangeOf(float64(gradient), computing, s.Lanes)
	cl := &Cluster{
		Workers: n.Workers, Computing: computing, NIC: n.NIC, Cores: n.Cores, Gradient: gradient,
		Gather: e.gather, Broadcast: e.broadcast, Pipelined: e.pipelined, Bound: e.bound,
	}
	if computing > 1 {
		cl.In, cl.Out = gradient*int64(contributions(computing, s.Lanes)), gradient*int64(computing)
		gather, serve := coordinatorCPU(float64(gradient), float64(cl.In), float64(cl.Out))
		cl.CoreSeconds = gather + serve
	}
	for _, w := range n.Kinds {
		k := Kind{Worker: w, Compute: computeOf(float64(s.TokensPerStep), computing, s.Lanes, w.TokensPerSecond)}
		k.InARow = n.verdict(c, s, w, computing, func(e exchange) float64 { return e.gather + e.broadcast })
		k.Pipelined = n.verdict(c, s, w, computing, func(e exchange) float64 { return e.pipelined })
		allowed := k.Compute * goodShare / (1 - goodShare)
		k.Needs = Needs{
			NIC: 8 / payloadShare * float64(max(cl.In, cl.Out)) / allowed, Cores: cl.CoreSeconds / allowed,
		}
		if computing > 1 {
			k.Needs.WorkerCores = 1e-9 * float64(gradient) * pullCost / allowed
		}
		cl.Kinds = append(cl.Kinds, k)
	}
	return cl
}

// verdict judges an exchange whose seconds are those that of picks.
func (n Network) verdict(c model.Config, s Setting, w Worker, workers int, of func(exchange) float64) Verdict {
	gradient, unit := float64(c.Parameters()*floatBytes), s.Lanes*s.Microbatch*c.Context
	step := func(workers, lanes int) float64 {
		return computeOf(float64(s.TokensPerStep), workers, lanes, w.TokensPerSecond) + of(n.exchangeOf(gradient, workers, lanes))
	}
	whole := step(workers, s.Lanes)
	moved := of(n.exchangeOf(gradient, workers, s.Lanes))
	perToken := computeOf(1, workers, s.Lanes, w.TokensPerSecond)
	units := math.Ceil(moved * (1 - goodShare) / goodShare / perToken / float64(unit))
	v := Verdict{Share: moved / whole, TokensFor5: int64(max(1, units)) * int64(unit), MostWorkers: 1, Speedup: step(1, s.Lanes) / whole}
	for next := 2; next <= min(maxWorkers, s.TokensPerStep/(s.Microbatch*c.Context)); next *= 2 { // a lane has a microbatch
		if step(next, max(next, s.Lanes)) >= step(next/2, max(next, s.Lanes)) {
			break
		}
		v.MostWorkers = next
	}
	return v
}
