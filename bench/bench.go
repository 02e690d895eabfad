package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"andrea/cpuengine"
	"andrea/model"
)

// Options say what to measure.
type Options struct {
	Variants []string          // whose products, attention and training; none: all, but train no variant of minutes
	Path     string            // instruction set; "": the fastest
	Doing    func(what string) // is told what is measured next; may be nil
}

// subject is a variant with the trainings that are measured of it.
type subject struct {
	config   model.Config
	windows  []int         // microbatches, in windows
	budget   time.Duration // of one training; rounds that would begin later are left out
	onDemand bool          // a training takes minutes: measured only when the variant is named
}

// subjects lists the variants that bench knows.
func subjects() ([]subject, error) {
	all := []subject{
		{config: model.Config{Variant: "12m"}, windows: []int{1, 4}, budget: 10 * time.Second},
		{config: model.Config{Variant: "120m"}, windows: []int{2}, budget: 25 * time.Second},
		{config: model.Config{Variant: "480m"}, windows: []int{1}, budget: 60 * time.Second, onDemand: true},
	}
	for i := range all {
		c, err := model.Variant(all[i].config.Variant)
		if err != nil {
			return nil, err
		}
		all[i].config = c
	}
	return all, nil
}

// chosen returns the subjects of the options. Training on the portable path takes minutes
// for every variant and microbatch, so that only one window is trained there.
func (o Options) chosen(path string) ([]subject, error) {
	all, err := subjects()
	if err != nil {
		return nil, err
	}
	for _, name := range o.Variants {
		if _, err := model.Variant(name); err != nil {
			return nil, err
		}
	}
	var chosen []subject
	for _, s := range all {
		named := slices.Contains(o.Variants, s.config.Variant)
		if len(o.Variants) > 0 && !named {
			continue
		}
		switch {
		case !named && (s.onDemand || path == portable):
			s.windows = nil
		case path == portable:
			s.windows = s.windows[:1]
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

// portable is the path in plain Go, whose arithmetic is some fifty times slower.
const portable = "portable"

// Check returns what is wrong with the options, before anything is measured.
func (o Options) Check() error {
	bench, err := cpuengine.NewWorkbench(1, o.Path)
	if err != nil {
		return err
	}
	defer bench.Close()
	_, err = o.chosen(bench.Path())
	return err
}

// Run measures and returns a report. A probe that does not reach what the processor is
// known to do is an error: the numbers would mean nothing.
func Run(ctx context.Context, o Options) (*Report, error) {
	bench, err := cpuengine.NewWorkbench(0, o.Path)
	if err != nil {
		return nil, err
	}
	defer bench.Close()
	chosen, err := o.chosen(bench.Path())
	if err != nil {
		return nil, err
	}
	r := &Report{Machine: thisMachine(bench.Threads()), Path: bench.Path(), Started: time.Now().UTC()}
	doing := func(format string, args ...any) {
		if o.Doing != nil {
			o.Doing(fmt.Sprintf(format, args...))
		}
	}
	doing("the peak of fused multiply-adds")
	if r.Peaks, err = peaks(ctx, bench.Threads()); err != nil {
		return nil, err
	}
	m := newMeter(ctx, bench)
	if err := r.measure(m, chosen, doing); err != nil {
		return nil, err
	}
	r.settle(m.rates)
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// measure fills the report but for the peaks. Trainings come first, smallest first: later
// memory would count as theirs.
func (r *Report) measure(m *meter, chosen []subject, doing func(string, ...any)) error {
	for _, s := range chosen {
		for _, windows := range s.windows {
			doing("training of %s", Training{Variant: s.config.Variant, Windows: windows}.name())
			t, err := train(m, s, windows)
			if err != nil {
				return err
			}
			r.Trainings = append(r.Trainings, t)
		}
		if len(s.windows) == 0 {
			continue
		}
		doing("generation with %s", s.config.Variant)
		d, err := decode(m, s.config)
		if err != nil {
			return err
		}
		r.Decodings = append(r.Decodings, d)
	}
	for _, s := range chosen {
		doing("products and attention of %s", s.config.Variant)
		p, err := products(m, s.config)
		if err != nil {
			return err
		}
		a, err := attentions(m, s.config)
		if err != nil {
			return err
		}
		r.Products, r.Attentions = append(r.Products, p...), append(r.Attentions, a...)
	}
	doing("the memory's bandwidth")
	memory, err := bandwidth(m)
	r.Memory = memory
	return err
}
