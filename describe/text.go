package describe

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is the description for people, in lines.
func (d Description) Text() string {
	var b strings.Builder
	d.writeShape(&b)
	d.writeAttention(&b)
	counts(&b, "Parameters", d.Parameters.Parts, d.Parameters.Total)
	counts(&b, "Floating point operations of a token, forward and backward", d.Arithmetic.Parts, d.Arithmetic.Total)
	fmt.Fprintf(&b, "  a step of %s tokens takes %.4g of them\n", commas(int64(d.Batch.TokensPerStep)), d.Arithmetic.TotalPerStep)
	d.writeMemory(&b)
	fmt.Fprint(&b, "\nFiles of a checkpoint, in bytes\n")
	for _, f := range d.Checkpoint {
		amount(&b, f.Name, f.Bytes, "")
	}
	fmt.Fprintf(&b, "\nLoss before training, on uniformly random tokens: %.3f nats per token\n", d.LossAtStart)
	if d.Cluster != nil {
		d.writeCluster(&b)
	}
	return b.String()
}

func (d Description) writeShape(b *strings.Builder) {
	s := d.Shape
	fmt.Fprintf(b, "%s: %s parameters\n", d.Variant, commas(d.Parameters.Total))
	fmt.Fprintf(b, "  d_model %d, %d heads of %d, %d layers, context %d, vocabulary %d\n", s.DModel, s.NHead, s.HeadDim, s.NLayer, s.Context, s.Vocab)
	fmt.Fprintf(b, "  activation %s, embed_norm %v, final_norm %v, norm_eps %v\n", s.Activation, s.EmbedNorm, s.FinalNorm, s.NormEps)
	if s.SlowHeads {
		fmt.Fprintf(b, "  heads of %d run on a generic kernel, slower: a multiple of 16 is fast\n", s.HeadDim)
	}
}

func (d Description) writeAttention(b *strings.Builder) {
	a := d.Attention
	fmt.Fprintf(b, "\nAttention of one layer, for a microbatch of %d window(s)\n", d.Batch.Microbatch)
	for i, s := range a.Stages {
		fmt.Fprintf(b, "  %d  %s: %s\n       %s  ->  %s\n", i+1, s.Name, s.Rule, tensors(s.In), tensors(s.Out))
	}
	fmt.Fprintf(b, "  %s parameters a layer, %s in %d layers, %.1f %% of all\n",
		commas(a.ParametersPerLayer), commas(a.Parameters), d.Shape.NLayer, 100*a.Share)
	fmt.Fprintf(b, "  %s scores per head and window, of which the mask leaves %s; never stored as a whole\n",
		commas(a.ScoresPerHead), commas(a.KeptPerHead))
}

// tensors writes names and shapes; those of one shape share it.
func tensors(all []Tensor) string {
	var parts []string
	for i, t := range all {
		shape := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		if i+1 < len(all) && fmt.Sprint(all[i+1].Shape) == fmt.Sprint(t.Shape) {
			shape = ""
		}
		parts = append(parts, strings.TrimSuffix(t.Name+" "+shape, " "))
	}
	return strings.Join(parts, ", ")
}

func (d Description) writeMemory(b *strings.Builder) {
	m := d.Memory
	fmt.Fprintf(b, "\nMemory of a run on this machine, in bytes (%d threads)\n", d.Batch.Threads)
	amount(b, "weights and moments", m.State, "")
	amount(b, fmt.Sprintf("%d gradients for %d lanes", d.Batch.Slots, d.Batch.Lanes), m.Gradients, "")
	amount(b, "activations and scratch", m.Activations, "")
	amount(b, "copy for checkpoints", m.Snapshot, "")
	amount(b, "garbage", m.Garbage, "")
	amount(b, "program", m.Program, "")
	amount(b, "total", m.Total, "")
}

func counts(b *strings.Builder, title string, parts []Count, total int64) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, p := range parts {
		amount(b, p.Part, p.Count, fmt.Sprintf("%6.1f %%", 100*p.Share))
	}
	amount(b, "total", total, "")
}

// amount writes one line of a table.
func amount(b *strings.Builder, name string, n int64, more string) {
	fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-28s %18s%s", name, commas(n), more), " "))
}

// commas writes a number that is not negative with separators: 12,345.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
