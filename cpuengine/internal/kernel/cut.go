package kernel

// cut describes how n columns are cut into panels of one, two or three vectors. Panels of
// three vectors run fastest; the last two are evened out where one would be nearly empty.
type cut struct {
	floats  int // of a vector
	columns int
	panels  int
	wide    int // leading panels of three vectors
	rest    int // vectors of each panel after them
}

func newCut(columns, floats int) cut {
	c := cut{floats: floats, columns: columns, wide: columns / (3 * floats)}
	switch over := columns - c.wide*3*floats; {
	case over == 0:
		c.panels = c.wide
	case over <= floats && c.wide > 0:
		c.panels, c.rest = c.wide+1, 2
		c.wide--
	default:
		c.panels, c.rest = c.wide+1, (over+floats-1)/floats
	}
	return c
}

// panel is a part of a cut: columns [start, start+used), padded to a number of vectors.
type panel struct{ start, used, vectors, width int }

// at returns panel i. Its place in packed memory is start·k, as only the last is padded.
func (c cut) at(i int) panel {
	p := panel{start: i * 3 * c.floats, vectors: 3}
	if i >= c.wide {
		p.start = c.wide*3*c.floats + (i-c.wide)*c.rest*c.floats
		p.vectors = c.rest
	}
	p.width = p.vectors * c.floats
	p.used = min(p.width, c.columns-p.start)
	return p
}

// evenly returns the length of the parts when total is cut into the fewest parts of at most
// limit, as equal as multiples of unit allow. Limit is a multiple of unit.
func evenly(total, limit, unit int) int {
	parts := max(1, (total+limit-1)/limit)
	return (total + parts*unit - 1) / (parts * unit) * unit
}
