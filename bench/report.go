package bench

import (
	"fmt"
	"slices"
	"time"
)

// Report is what a run of bench found.
type Report struct {
	Machine    Machine
	Path       string // of everything but Peaks
	Started    time.Time
	Peaks      []Peak // every path of this machine
	Memory     Bandwidth
	Products   []Product
	Attentions []Attention
	Trainings  []Training
	Decodings  []Decoding
	Quiet      float64 // median of the probes between the rounds as a share of the peak; below quietEnough others used the machine
}

// quietEnough is what Report.Quiet reaches on a machine that does nothing else.
const quietEnough = 0.9

// peak returns the peak of the report's path.
func (r *Report) peak() *Peak {
	for i := range r.Peaks {
		if r.Peaks[i].Path == r.Path {
			return &r.Peaks[i]
		}
	}
	return &Peak{Path: r.Path}
}

// settle counts the probes that ran between the rounds.
func (r *Report) settle(rates []float64) {
	p := r.peak()
	p.Rate = max(p.Rate, slices.Max(rates))
	r.Quiet = median(rates) / p.Rate
}

// best returns the product whose fastest round had the highest rate, which is the second
// result, in FLOP/s.
func (r *Report) best() (best Product, rate float64) {
	for _, p := range r.Products {
		if f := p.FLOPs / p.Fastest; f > rate {
			best, rate = p, f
		}
	}
	return best, rate
}

// check returns an error when a product was faster than the peak: then the probe was
// disturbed, and shares of it mean nothing.
func (r *Report) check() error {
	p, rate := r.best()
	if peak := r.peak().Rate; rate > peak {
		return fmt.Errorf("comparing products with the peak: %s %s of %s ran at %.1f GFLOP/s, the best probe at %.1f: something else used the processor during the probes: run again when the machine is quiet",
			p.Layer, p.Way, p.Variant, rate/1e9, peak/1e9)
	}
	return nil
}

// total adds the work and the median times of a variant's products, one of each. The peak is
// the mean of theirs, weighted by time.
func total(products []Product, variant string) (flops float64, t Timing) {
	possible := 0.0 // FLOPs that the peaks would have done
	for _, p := range products {
		if p.Variant == variant {
			flops += p.FLOPs
			t.Seconds += p.Seconds
			possible += p.Peak * p.Seconds
		}
	}
	t.Peak = possible / t.Seconds
	return flops, t
}

// variants lists the variants of the products in order.
func (r *Report) variants() []string {
	var names []string
	for _, p := range r.Products {
		if len(names) == 0 || names[len(names)-1] != p.Variant {
			names = append(names, p.Variant)
		}
	}
	return names
}

// Values returns the report as flat keys such as train.12m.fp32.w4.share, for JSON. Rates are
// in GFLOP/s or GB/s (10^9), times in milliseconds, shares in parts of 1.
func (r *Report) Values() map[string]any {
	v := map[string]any{
		"machine.cpu": r.Machine.CPU, "machine.system": r.Machine.System, "machine.go": r.Machine.Go, "machine.threads": r.Machine.Threads,
		"path": r.Path, "quiet": r.Quiet, "started": r.Started.Format(time.RFC3339),
		"memory.copy.gbps": r.Memory.Copy / 1e9, "memory.read.gbps": r.Memory.Read / 1e9, "memory.bytes": r.Memory.Bytes,
	}
	timing := func(key string, flops float64, t Timing) {
		v[key+".gflops"], v[key+".share"], v[key+".peak_gflops"] = t.Rate(flops)/1e9, t.Share(flops), t.Peak/1e9
		v[key+".ms"] = t.Seconds * 1e3
	}
	for _, p := range r.Peaks {
		key := "peak." + p.Path
		v[key+".gflops"], v[key+".flop_per_cycle"], v[key+".width"], v[key+".ghz"] = p.Rate/1e9, p.FLOPPerCycle, p.Width, p.Clock/1e9
	}
	for _, p := range r.Products {
		timing(fmt.Sprintf("gemm.%s.fp32.%s.%s", p.Variant, p.Layer, p.Way), p.FLOPs, p.Timing)
	}
	for _, name := range r.variants() {
		flops, t := total(r.Products, name)
		timing(fmt.Sprintf("gemm.%s.fp32", name), flops, t)
	}
	for _, a := range r.Attentions {
		timing(fmt.Sprintf("attention.%s.fp32.%s", a.Variant, a.Way), a.FLOPs, a.Timing)
	}
	for _, t := range r.Trainings {
		key := fmt.Sprintf("train.%s.fp32.w%d", t.Variant, t.Windows)
		timing(key, t.FLOPs, t.Timing)
		v[key+".tokens_per_second"], v[key+".rounds"] = t.Rate(float64(t.Tokens)), t.Rounds
		v[key+".engine_bytes"], v[key+".peak_bytes"] = t.EngineBytes, t.PeakBytes
		for _, p := range t.Parts {
			v[key+"."+p.Name+"_ms"] = p.Seconds * 1e3
		}
	}
	for _, d := range r.Decodings {
		v[fmt.Sprintf("decode.%s.fp32.tokens_per_second", d.Variant)] = d.Rate(float64(d.Tokens))
	}
	return v
}
