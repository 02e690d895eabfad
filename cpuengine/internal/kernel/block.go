package kernel

// strip is a block of A as the micro-kernels read it: see panelFunc.
type strip struct {
	data                              []float32
	rowStride, colStride, blockStride int
}

// packPanel packs one panel of B [k, n] to its place in slab: [k][width], padded with zeros.
func (p *Path) packPanel(slab []float32, b Matrix, part panel) {
	k := b.Rows
	dst := slab[part.start*k:][:part.width*k]
	src := b.block(0, part.start, k, part.used)
	switch {
	case part.used < part.width:
		clear(dst)
		packEdge(dst, src, part.width)
	case b.Transposed:
		p.packRows(dst, src.Data, src.Stride, k, part.width)
	default:
		p.packColumns(dst, src.Data, src.Stride, k, part.width)
	}
}

// packEdge packs a panel of which only src.Cols of width columns exist.
func packEdge(dst []float32, src Matrix, width int) {
	if !src.Transposed {
		for kk := range src.Rows {
			copy(dst[kk*width:], src.Data[kk*src.Stride:][:src.Cols])
		}
		return
	}
	for j := range src.Cols {
		for kk, v := range src.Data[j*src.Stride:][:src.Rows] {
			dst[kk*width+j] = v
		}
	}
}

// mulBlock multiplies a block of A (at most blockM rows) with panels [first, last) of a
// packed slab into C, whose columns are those of the whole slab.
func (p *Path) mulBlock(s *scratch, c, a Matrix, slab []float32, cut cut, first, last int, add bool) {
	full := c.Rows / p.rows
	main, tail := p.strips(s, a, full, last-first)
	k := a.Cols
	for i := first; i < last; i++ {
		part := cut.at(i)
		run := p.panel[part.vectors-1]
		b := slab[part.start*k:][:part.width*k]
		out := c.Data[part.start:]
		if part.used == part.width && full > 0 {
			run(full, k, main.data, main.rowStride, main.colStride, main.blockStride, b, out, c.Stride, add)
		} else {
			for t := range full {
				block := main
				block.data = main.data[t*main.blockStride:]
				p.edge(s, run, block, k, b, out[t*p.rows*c.Stride:], c.Stride, p.rows, part, add)
			}
		}
		if rest := c.Rows - full*p.rows; rest > 0 {
			p.edge(s, run, tail, k, b, out[full*p.rows*c.Stride:], c.Stride, rest, part, add)
		}
	}
}

// edge computes a tile of which only rows x part.used exist in C, by way of a full tile.
func (p *Path) edge(s *scratch, run panelFunc, a strip, k int, b, c []float32, stride, rows int, part panel, add bool) {
	tile := s.tile[:p.rows*part.width]
	if add {
		for r := range rows {
			copy(tile[r*part.width:], c[r*stride:][:part.used])
		}
	}
	run(1, k, a.data, a.rowStride, a.colStride, a.blockStride, b, tile, part.width, add)
	for r := range rows {
		copy(c[r*stride:][:part.used], tile[r*part.width:])
	}
}

// packFrom is the number of panels from which on it pays to pack a transposed A: each then
// reads the block again, k rows far apart, which keeps hitting the same few cache sets.
const packFrom = 3

// strips prepares a block of A for that many panels: full whole row blocks, read in place
// where that is fast, and the rows after them, packed and padded with zeros.
func (p *Path) strips(s *scratch, a Matrix, full, panels int) (main, tail strip) {
	k, whole := a.Cols, full*p.rows
	if whole < a.Rows {
		tail = strip{s.tail, 1, p.rows, 0}
		dst := s.tail[:k*p.rows]
		clear(dst)
		packEdge(dst, a.block(whole, 0, a.Rows-whole, k).T(), p.rows)
	}
	switch {
	case !a.Transposed:
		main = strip{a.Data, a.Stride, 1, p.rows * a.Stride}
	case panels < packFrom:
		main = strip{a.Data, 1, a.Stride, p.rows}
	default:
		main = strip{s.a, 1, p.rows, k * p.rows}
		if full > 0 {
			p.packStrip(s.a, main.blockStride, a.Data, a.Stride, k, full)
		}
	}
	return main, tail
}
