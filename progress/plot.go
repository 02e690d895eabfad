package progress

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"andrea/pipeline"
)

// Point is one point of a curve. NaN and Inf are not drawn.
type Point struct {
	Step    int64
	Loss    float64 // nats per token
	ValLoss float64 // NaN: none was computed
}

// maxPoints is how many points a curve keeps.
const maxPoints = 4096

// curve is the losses of a run, thinned out so that it never holds more than maxPoints points.
type curve []Point

func (c *curve) add(record pipeline.CommitRecord) {
	if len(*c) == maxPoints {
		*c = c.halved()
	}
	p := Point{Step: record.Step, Loss: float64(record.Loss), ValLoss: math.NaN()}
	if record.ValLoss != nil {
		p.ValLoss = float64(*record.ValLoss)
	}
	*c = append(*c, p)
}

// halved makes one point of every two neighbours.
func (c curve) halved() curve {
	half := c[:0]
	for pair := range slices.Chunk(c, 2) {
		p := pair[len(pair)-1]
		if q := pair[0]; len(pair) == 2 {
			p.Loss = (q.Loss + p.Loss) / 2
			if !finite(p.ValLoss) {
				p.ValLoss = q.ValLoss
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

// Plot draws losses over steps, at most width columns wide: height rows of a line in braille dots with
// the losses at the left, the steps below, and a legend. Several points in one column of dots are
// drawn as their mean. Points are in the order of their steps. A chart that would be too small, or of
// fewer than two losses, is "".
func Plot(points []Point, width, height int) string {
	lo, hi, count := lossRange(points)
	if count < 2 || width < minPlotWidth || height < minPlotHeight {
		return ""
	}
	if hi == lo {
		lo, hi = lo-0.5, hi+0.5
	}
	labels := []string{formatLoss(hi, 3), formatLoss(lo/2+hi/2, 3), formatLoss(lo, 3)}
	margin := 0
	for _, label := range labels {
		margin = max(margin, columns(label))
	}
	c := newCanvas(points, lo, hi, width-margin-2, height)
	c.drawLoss(points)
	c.drawValidation(points)
	return c.framed(labels, margin)
}

// lossRange is the range of the losses that can be drawn, and the number of training losses among them.
func lossRange(points []Point) (lo, hi float64, count int) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		if finite(p.Loss) {
			count++
			lo, hi = min(lo, p.Loss), max(hi, p.Loss)
		}
		if finite(p.ValLoss) {
			lo, hi = min(lo, p.ValLoss), max(hi, p.ValLoss)
		}
	}
	return lo, hi, count
}

// canvas is the inner part of a chart, [height][width] characters. A braille character has 2 by 4 dots.
type canvas struct {
	cells         [][]rune
	width, height int // characters
	first, last   int64
	lo, hi        float64
	validation    bool // at least one validation loss was drawn
}

const braille = 0x2800 // without dots

// dots are the bits of a braille character's dots, [column][row].
var dots = [2][4]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

func newCanvas(points []Point, lo, hi float64, width, height int) *canvas {
	c := &canvas{
		width: width, height: height, lo: lo, hi: hi,
		first: points[0].Step, last: points[len(points)-1].Step,
	}
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

func (c *canvas) dot(x, y int) { c.cells[y/4][x/2] |= dots[x%2][y%4] }

// drawLoss draws the training loss as one line: the mean of the losses in each column of dots, joined
// by straight lines over the columns without any.
func (c *canvas) drawLoss(points []Point) {
	sums, counts := make([]float64, 2*c.width), make([]float64, 2*c.width)
	for _, p := range points {
		if finite(p.Loss) {
			x := c.x(p.Step, len(sums))
			counts[x]++
			sums[x] += (p.Loss - sums[x]) / counts[x] // a running mean, which cannot overflow where the sum would
		}
	}
	fromX, fromY := -1, 0
	for x, count := range counts {
		if count == 0 {
			continue
		}
		y := c.y(sums[x], 4*c.height)
		if fromX < 0 {
			fromX, fromY = x, y
		}
		c.line(fromX, fromY, x, y)
		fromX, fromY = x, y
	}
}

// line draws a line whose ends are included, from left to right.
func (c *canvas) line(x0, y0, x1, y1 int) {
	long := max(x1-x0, y1-y0, y0-y1, 1)
	for i := range long + 1 {
		c.dot(x0+(x1-x0)*i/long, y0+(y1-y0)*i/long)
	}
}

// validationColumns is how many columns share one mark, so that marks do not hide the line.
const validationColumns = 4

// drawValidation puts an o at the mean of the validation losses of some columns, where the last of them
// lies.
func (c *canvas) drawValidation(points []Point) {
	type mark struct {
		x           int
		mean, count float64
	}
	marks := make([]mark, c.width/validationColumns+1)
	for _, p := range points {
		if finite(p.ValLoss) {
			x := c.x(p.Step, c.width)
			m := &marks[x/validationColumns]
			m.x = x
			m.count++
			m.mean += (p.ValLoss - m.mean) / m.count
		}
	}
	for _, m := range marks {
		if m.count > 0 {
			c.cells[c.y(m.mean, c.height)][m.x] = 'o'
			c.validation = true
		}
	}
}

// framed adds axes, labels and the legend.
func (c *canvas) framed(labels []string, margin int) string {
	var b strings.Builder
	for y, cells := range c.cells {
		label, tick := "", "│"
		switch y {
		case 0:
			label, tick = labels[0], "┤"
		case c.height / 2:
			if c.height%2 == 1 { // only then is there a row in the middle
				label, tick = labels[1], "┤"
			}
		case c.height - 1:
			label, tick = labels[2], "┤"
		}
		line := strings.ReplaceAll(string(cells), string(rune(braille)), " ")
		b.WriteString(strings.TrimRight(padLeft(label, margin)+" "+tick+line, " ") + "\n")
	}
	first, last := fmt.Sprint(c.first), fmt.Sprint(c.last)
	indent := strings.Repeat(" ", margin+1)
	b.WriteString(indent + "└" + strings.Repeat("─", c.width) + "\n")
	b.WriteString(indent + " " + clip(first, c.width) + padLeft(clip(last, c.width), c.width-columns(clip(first, c.width))) + "\n")
	legend := "training loss by step"
	if c.validation {
		legend += ", o validation"
	}
	b.WriteString(indent + " " + clip(legend, c.width) + "\n")
	return b.String()
}
