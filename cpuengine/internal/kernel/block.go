package kernel

// strip is a block of A as the micro-kernels read it: see panelFunc.
type strip struct {
	data                              []float32
	rowStride, colStride, blockStride int
}

// slab is a part of B cut into panels, those of them packed that are not read in place.
type slab struct {
	cut
	b       Matrix // [k, columns]
	inPlace bool   // read what can be: b is not transposed and its panel full
	packed  []float32
}

// reads reports whether panel p is read in place.
func (s *slab) reads(p panel) bool { return s.inPlace && !s.b.Transposed && p.used == p.width }

// rows returns panel p as the micro-kernels read it, and how far its rows are apart.
func (s *slab) rows(p panel) (data []float32, stride int) {
	if s.reads(p) {
		return s.b.Data[p.start:], s.b.Stride
	}
	return s.packed[p.start*s.b.Rows:][:p.width*s.b.Rows], p.width
}

// pack packs panel i of a slab to its place as [k][width], padded with zeros.
func (p *Path) pack(s *slab, i int) {
	part := s.at(i)
	if s.reads(part) {
		return
	}
	k := s.b.Rows
	dst, _ := s.rows(part)
	src := s.b.block(0, part.start, k, part.used)
	switch {
	case part.used < part.width:
		clear(dst)
		packEdge(dst, src, part.width)
	case src.Transposed:
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
func (p *Path) mulBlock(w *scratch, c, a Matrix, b *slab, first, last int, add bool) {
	full := c.Rows / p.rows
	main, tail := p.strips(w, a, full, last-first)
	rest := c.Rows - full*p.rows
	for i := first; i < last; i++ {
		t := tile{path: p, scratch: w, panel: b.at(i), k: a.Cols, stride: c.Stride, add: add}
		t.b, t.bStride = b.rows(t.panel)
		out := c.Data[t.start:]
		if t.used == t.width && full > 0 {
			t.run(full, main, out, c.Stride)
		} else {
			for j := range full {
				t.edge(p.rows, main.from(j), out[j*p.rows*c.Stride:])
			}
		}
		if rest > 0 {
			t.edge(rest, tail, out[full*p.rows*c.Stride:])
		}
	}
}

// from returns the strip without its first row blocks.
func (s strip) from(block int) strip {
	s.data = s.data[block*s.blockStride:]
	return s
}

// tile is what the tiles of C under one panel have in common.
type tile struct {
	path    *Path
	scratch *scratch
	panel
	k       int
	b       []float32 // the panel's rows
	bStride int
	stride  int // of C
	add     bool
}

// run multiplies whole row blocks.
func (t *tile) run(blocks int, a strip, c []float32, stride int) {
	f := t.path.panel[t.vectors-1]
	f(blocks, t.k, a.data, a.rowStride, a.colStride, a.blockStride, t.b, t.bStride, c, stride, t.add)
}

// edge computes a tile of which only rows x used exist in C, by way of a full one.
func (t *tile) edge(rows int, a strip, c []float32) {
	whole := t.scratch.tile[:t.path.rows*t.width]
	if t.add {
		for r := range rows {
			copy(whole[r*t.width:], c[r*t.stride:][:t.used])
		}
	}
	t.run(1, a, whole, t.width)
	for r := range rows {
		copy(c[r*t.stride:][:t.used], whole[r*t.width:])
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
