package progress

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"andrea/pipeline"
)

// point is one point of a curve. NaN and Inf are not drawn.
type point struct {
	Step    int64
	Loss    float64 // nats per token
	ValLoss float64 // NaN: none was computed
}

// maxPoints is how many points a curve keeps.
const maxPoints = 4096

// curve is the losses of a run, thinned out so that it never holds more than maxPoints points.
type curve []point

func (c *curve) add(record pipeline.CommitRecord) {
	if len(*c) == maxPoints {
		*c = c.halved()
	}
	p := point{Step: record.Step, Loss: float64(record.Loss), ValLoss: math.NaN()}
	if record.ValLoss != nil {
		p.ValLoss = float64(*record.ValLoss)
	}
	*c = append(*c, p)
}

// halved makes one point of every two neighbours, at the step of the first.
func (c curve) halved() curve {
	half := c[:0]
	for pair := range slices.Chunk(c, 2) {
		p := pair[0]
		if len(pair) == 2 {
			p.Loss = (p.Loss + pair[1].Loss) / 2
			if finite(pair[1].ValLoss) {
				p.ValLoss = pair[1].ValLoss
			}
		}
		half = append(half, p)
	}
	return half
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// The smallest chart that tells anything.
const (
	minPlotWidth  = 30
	minPlotHeight = 3
)

// plot draws losses over steps, at most width columns wide: height rows of a line in braille dots with
// the losses at the left, the steps below, and a legend. Several points in one column of dots are
// drawn as their mean. Points are in the order of their steps. A chart that would be too small, or of
// fewer than two losses, is "".
func plot(points []point, width, height int) string {
	values := make([]float64, 0, 2*len(points))
	for _, p := range points {
		values = append(values, p.Loss)
	}
	count, _, _ := finiteRange(values)
	if count < 2 || width < minPlotWidth || height < minPlotHeight {
		return ""
	}
	for _, p := range points {
		values = append(values, p.ValLoss)
	}
	_, lo, hi := finiteRange(values)
	margin := widest(axisLabels(lo, hi)) // means lie closer together, and their labels are seldom wider
	c := newCanvas(points, width-margin-2, height)
	loss, marks := c.lossMeans(points), c.validationMarks(points)
	c.scale(loss, marks)
	c.drawLoss(loss)
	for _, m := range marks {
		c.cells[c.y(m.mean, c.height)][m.x] = 'o'
	}
	return c.framed(margin, len(marks) > 0)
}

// finiteRange is the number and the range of the values that are finite.
func finiteRange(values []float64) (count int, lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range values {
		if finite(x) {
			count++
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return count, lo, hi
}

// axisLabels are the labels at the top, the middle and the bottom.
func axisLabels(lo, hi float64) [3]string {
	return [3]string{formatLoss(hi, 3), formatLoss(lo/2+hi/2, 3), formatLoss(lo, 3)}
}

func widest(texts [3]string) int {
	return max(columns(texts[0]), columns(texts[1]), columns(texts[2]))
}

// canvas is the inner part of a chart, [height][width] characters. A braille character has 2 by 4 dots.
type canvas struct {
	cells         [][]rune
	width, height int // characters
	first, last   int64
	lo, hi        float64 // of what is drawn
}

const braille = 0x2800 // without dots

// dots are the bits of a braille character's dots, [column][row].
var dots = [2][4]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

func newCanvas(points []point, width, height int) *canvas {
	c := &canvas{width: width, height: height, first: points[0].Step, last: points[len(points)-1].Step}
	for range height {
		c.cells = append(c.cells, slices.Repeat([]rune{braille}, width))
	}
	return c
}

// x is the column of a step among n columns.
func (c *canvas) x(step int64, n int) int {
	return place(float64(step)-float64(c.first), float64(c.last)-float64(c.first), n)
}

// y is the row, from the top, of a loss among n rows.
func (c *canvas) y(loss float64, n int) int {
	return n - 1 - place(loss/2-c.lo/2, c.hi/2-c.lo/2, n) // halves, so that no difference overflows
}

// place is where value stands on a way of length whole that is cut into n places.
func place(value, whole float64, n int) int {
	part := value / whole
	if !(part > 0) { // NaN too
		return 0
	}
	return int(math.Round(min(part, 1) * float64(n-1)))
}

// average is a mean of losses at a column.
type average struct {
	x           int
	mean, count float64
}

// add takes in a loss. The mean moves by quotients, which cannot overflow where a sum would.
func (a *average) add(x int, loss float64) {
	a.x = x
	a.count++
	a.mean += loss/a.count - a.mean/a.count
}

// lossMeans are the means of the training loss in the columns of dots that have one.
func (c *canvas) lossMeans(points []point) []average {
	means := make([]average, 2*c.width)
	for _, p := range points {
		if finite(p.Loss) {
			x := c.x(p.Step, len(means))
			means[x].add(x, p.Loss)
		}
	}
	return present(means)
}

// markColumns is how many columns share one mark of the validation loss, so that marks do not hide the
// line.
const markColumns = 4

// validationMarks are the means of the validation loss in groups of columns, where the last of each lies.
func (c *canvas) validationMarks(points []point) []average {
	marks := make([]average, c.width/markColumns+1)
	for _, p := range points {
		if finite(p.ValLoss) {
			x := c.x(p.Step, c.width)
			marks[x/markColumns].add(x, p.ValLoss)
		}
	}
	return present(marks)
}

func present(all []average) []average {
	return slices.DeleteFunc(all, func(a average) bool { return a.count == 0 })
}

// scale sets the range of the canvas to what will be drawn.
func (c *canvas) scale(sets ...[]average) {
	var values []float64
	for _, a := range slices.Concat(sets...) {
		values = append(values, a.mean)
	}
	_, c.lo, c.hi = finiteRange(values)
	if c.hi == c.lo {
		c.lo, c.hi = c.lo-0.5, c.hi+0.5
	}
}

// drawLoss draws means as one line, straight over the columns without any.
func (c *canvas) drawLoss(means []average) {
	from := means[0]
	for _, to := range means {
		c.line(from.x, c.y(from.mean, 4*c.height), to.x, c.y(to.mean, 4*c.height))
		from = to
	}
}

// line draws a line of dots whose ends are included, from left to right.
func (c *canvas) line(x0, y0, x1, y1 int) {
	long := max(x1-x0, y1-y0, y0-y1, 1)
	for i := range long + 1 {
		x, y := x0+(x1-x0)*i/long, y0+(y1-y0)*i/long
		c.cells[y/4][x/2] |= dots[x%2][y%4]
	}
}

// framed adds axes, labels of at most margin columns, and the legend.
func (c *canvas) framed(margin int, validation bool) string {
	labels := axisLabels(c.lo, c.hi)
	var b strings.Builder
	for y, cells := range c.cells {
		label, tick := "", "│"
		switch {
		case y == 0:
			label, tick = labels[0], "┤"
		case y == c.height-1:
			label, tick = labels[2], "┤"
		case 2*y == c.height-1: // a row in the middle, which an even height has not
			label, tick = labels[1], "┤"
		}
		line := strings.ReplaceAll(string(cells), string(rune(braille)), " ")
		b.WriteString(strings.TrimRight(padLeft(clip(label, margin), margin)+" "+tick+line, " ") + "\n")
	}
	first, last := clip(fmt.Sprint(c.first), c.width), clip(fmt.Sprint(c.last), c.width)
	indent := strings.Repeat(" ", margin+1)
	b.WriteString(indent + "└" + strings.Repeat("─", c.width) + "\n")
	b.WriteString(indent + " " + clip(first+padLeft(last, c.width-columns(first)), c.width) + "\n")
	legend := "training loss by step"
	if validation {
		legend += ", o validation"
	}
	b.WriteString(indent + " " + clip(legend, c.width) + "\n")
	return b.String()
}
