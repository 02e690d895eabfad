package bench

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Text returns the report as tables for people.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d threads, %s, %s\n", r.Machine.CPU, r.Machine.System, r.Machine.Threads, r.Machine.Go, r.Started.Format(time.RFC3339))
	fmt.Fprintf(&b, "A share is that of the FMA peak probed between the rounds of the same measurement.\n")
	if r.Quiet < quietEnough {
		fmt.Fprintf(&b, "The machine was not quiet: those probes reached %.0f %% of the peak in the median. Times and shares are rough:\nrun again when nothing else uses it.\n", 100*r.Quiet)
	}
	table(&b, "peak\tGFLOP/s\tFLOP/cycle/core\tof\tGHz", func(row func(string, ...any)) {
		for _, p := range r.Peaks {
			width := "unknown"
			if p.Width > 0 {
				width = fmt.Sprintf("%.0f", p.Width)
			}
			row("%s\t%.1f\t%.2f\t%s\t%.2f", p.Path, p.Rate/1e9, p.FLOPPerCycle, width, p.Clock/1e9)
		}
	})
	table(&b, "memory\tGB/s\tMiB", func(row func(string, ...any)) {
		row("copy (read and write)\t%.1f\t%d", r.Memory.Copy/1e9, r.Memory.Bytes>>20)
		row("read\t%.1f\t%d", r.Memory.Read/1e9, r.Memory.Bytes>>20)
	})
	r.trainingText(&b)
	r.operationText(&b)
	return b.String()
}

// trainingText writes the tables of whole steps and of generation.
func (r *Report) trainingText(b *strings.Builder) {
	if len(r.Trainings) == 0 {
		return
	}
	table(b, "training, "+r.Path+" fp32\ttokens/s\tGFLOP/s\tpeak\tshare\tms/step\tsteps\tengine MiB\tpeak MiB", func(row func(string, ...any)) {
		for _, t := range r.Trainings {
			row("%s\t%.0f\t%.1f\t%.1f\t%.1f %%\t%.1f\t%d\t%d\t%d", t.name(), t.Rate(float64(t.Tokens)),
				t.Rate(t.FLOPs)/1e9, t.Peak/1e9, 100*t.Share(t.FLOPs), 1e3*t.Seconds, t.Rounds, t.EngineBytes>>20, t.PeakBytes>>20)
		}
	})
	names := "ms in a step (mean)"
	for _, p := range r.Trainings[0].Parts {
		names += "\t" + strings.ReplaceAll(p.Name, "_", "-")
	}
	table(b, names, func(row func(string, ...any)) {
		for _, t := range r.Trainings {
			line := t.name()
			for _, p := range t.Parts {
				line += fmt.Sprintf("\t%.1f", 1e3*p.Seconds)
			}
			row("%s", line)
		}
	})
	table(b, "generation\ttokens/s\ttokens read before", func(row func(string, ...any)) {
		for _, d := range r.Decodings {
			row("%s\t%.0f\t%d", d.Variant, d.Rate(float64(d.Tokens)), d.Behind)
		}
	})
}

// name is the variant and microbatch for people.
func (t Training) name() string {
	if t.Windows == 1 {
		return t.Variant + ", 1 window"
	}
	return fmt.Sprintf("%s, %d windows", t.Variant, t.Windows)
}

// operationText writes the tables of products and of attention.
func (r *Report) operationText(b *strings.Builder) {
	line := func(row func(string, ...any), name string, flops float64, t Timing) {
		row("%s\t%.1f\t%.1f\t%.1f %%\t%.2f", name, t.Rate(flops)/1e9, t.Peak/1e9, 100*t.Share(flops), 1e3*t.Seconds)
	}
	table(b, fmt.Sprintf("GEMM of %d tokens\tGFLOP/s\tpeak\tshare\tms", productRows), func(row func(string, ...any)) {
		for _, variant := range r.variants() {
			for _, p := range r.Products {
				if p.Variant == variant {
					line(row, fmt.Sprintf("%s %s %s, %d to %d", p.Variant, p.Layer, strings.ReplaceAll(p.Way, "_", " "), p.In, p.Out), p.FLOPs, p.Timing)
				}
			}
			flops, t := total(r.Products, variant)
			line(row, variant+" all of these", flops, t)
		}
	})
	table(b, "attention of a window and layer\tGFLOP/s\tpeak\tshare\tms", func(row func(string, ...any)) {
		for _, a := range r.Attentions {
			line(row, a.Variant+" "+a.Way, a.FLOPs, a.Timing)
		}
	})
}

// table writes a blank line, a head and rows, whose cells end with tabs, with all columns but
// the first to the right.
func table(b *strings.Builder, head string, fill func(row func(format string, args ...any))) {
	var rows []string
	fill(func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) })
	if len(rows) == 0 {
		return
	}
	b.WriteByte('\n')
	first := 0
	for _, row := range append([]string{head}, rows...) {
		name, _, _ := strings.Cut(row, "\t")
		first = max(first, len(name))
	}
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
	for _, row := range append([]string{head}, rows...) {
		name, rest, _ := strings.Cut(row, "\t")
		fmt.Fprintf(w, "%-*s\t%s\t\n", first, name, rest)
	}
	w.Flush()
}
