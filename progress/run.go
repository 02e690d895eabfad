package progress

import (
	"fmt"
	"math"
	"slices"

	"andrea/pipeline"
)

const (
	recentSteps = 15  // whose median time the ETA is made of
	smoothing   = 0.9 // how much of the smoothed loss stays at every step
)

// run is what has been seen of a run so far.
type run struct {
	steps  int64 // of the whole job
	last   pipeline.StepDone
	seen   int64 // steps
	again  int64 // of them computed again
	tokens int64
	time   float64   // seconds
	recent []float64 // seconds of the newest steps of this run
	val    *pipeline.Float
	curve  curve

	lossSum, lossWeight float64 // smoothed loss = sum / weight
}

// add takes the next step in.
func (r *run) add(done pipeline.StepDone) {
	record := done.Record
	r.last = done
	r.seen++
	if done.Again { // its record has the time of an earlier run
		r.again++
	} else {
		r.tokens += record.Tokens
		r.time += record.Seconds
		r.took(record.Seconds)
	}
	if record.ValLoss != nil {
		r.val = record.ValLoss
	}
	r.smooth(float64(record.Loss))
	r.curve.add(record)
}

// took remembers the time of a step in seconds, for the ETA.
func (r *run) took(seconds float64) {
	if len(r.recent) == recentSteps {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, seconds)
}

// smooth takes a loss into the exponential moving average, whose weights of 0.1·0.9^age are divided by
// their sum, so that the first losses count in full. A loss that is no number is left out.
func (r *run) smooth(loss float64) {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return
	}
	r.lossSum = float64(smoothing*r.lossSum) + float64((1-smoothing)*loss)
	r.lossWeight = float64(smoothing*r.lossWeight) + (1 - smoothing)
}

// part is how much of the job is done, 0 to 1.
func (r *run) part() float64 {
	if r.steps < 1 {
		return 0
	}
	return float64(r.last.Record.Step) / float64(r.steps)
}

// typical is the median time of the newest steps in seconds; NaN before the first. It is not moved by a step that
// also computed a validation loss.
func (r *run) typical() float64 {
	if len(r.recent) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(r.recent))
	middle := len(sorted) / 2
	return (sorted[middle] + sorted[len(sorted)-1-middle]) / 2
}

// eta is the time in seconds that the remaining steps will take at speed; NaN before the first step.
func (r *run) eta() float64 {
	return r.typical() * float64(max(0, r.steps-r.last.Record.Step))
}

// speed is the tokens per second of a step that takes the typical time, and that of the last record before there is one.
func (r *run) speed() float64 {
	if seconds := r.typical(); seconds > 0 {
		return float64(r.last.Record.Tokens) / seconds
	}
	return r.last.Record.TokensPerSecond
}

// fields are the parts of the text row.
func (r *run) fields() []field {
	if r.seen == 0 {
		return []field{{fmt.Sprintf("%d steps to do", max(0, r.steps)), 0}, {"computing the first", 1}}
	}
	record := r.last.Record
	step := fmt.Sprintf("step %d/%d", record.Step, r.steps)
	if r.last.Again {
		step += " (again)"
	}
	fields := []field{{step, 0}, {"loss " + formatLoss(float64(record.Loss), 3), 1}}
	if r.val != nil {
		fields = append(fields, field{"val " + formatLoss(float64(*r.val), 3), 4})
	}
	return append(fields,
		field{"norm " + formatLoss(float64(record.GradNorm), 2), 5},
		field{"lr " + formatTiny(float64(record.LR)), 6},
		field{formatCount(r.speed()) + " tok/s", 3},
		field{"ETA " + formatSeconds(r.eta()), 2})
}

// rows are the two live rows.
func (r *run) rows(width int) []row {
	smoothed := ""
	if r.lossWeight > 0 {
		smoothed = "smoothed loss " + formatLoss(r.lossSum/r.lossWeight, 3)
	}
	return []row{plainRow(fit(r.fields(), width)), barRow(r.part(), smoothed, width)}
}

// summary is what is said of the run when it ends.
func (r *run) summary() string {
	unit := "steps"
	if r.seen == 1 {
		unit = "step"
	}
	text := formatCount(float64(r.seen)) + " " + unit
	if r.again > 0 {
		text += fmt.Sprintf(", %d of them computed again", r.again)
	}
	if r.time == 0 {
		return text
	}
	if r.again > 0 {
		text += ", the others"
	}
	return text + fmt.Sprintf(" in %s, %s tokens/s", formatSeconds(r.time), formatCount(float64(r.tokens)/r.time))
}
