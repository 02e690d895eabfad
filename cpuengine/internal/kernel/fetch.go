package kernel

// Fetch brings the rows of m, which is not transposed, into the cache for reading, without waiting for them.
// The processor does not do so by itself where rows lie pages apart. What is not there is not touched.
func (p *Path) Fetch(m Matrix) { p.fetchRows(0, m) }

// FetchToWrite is Fetch for rows that will be written.
func (p *Path) FetchToWrite(m Matrix) { p.fetchRows(1, m) }

func (p *Path) fetchRows(way int, m Matrix) {
	if f := p.fetch[way]; f != nil && m.Rows > 0 && m.Cols > 0 {
		f(m.Data, m.Stride, m.Rows, m.Cols)
	}
}
