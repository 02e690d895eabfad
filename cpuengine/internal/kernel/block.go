package kernel

// slab is a part of B cut into panels.
type slab struct {
	cut
	b      Matrix      // [k, columns]
	of     Elementwise // applied to what is packed; nil: none. Not with few
	packed []float32
	// few says that few rows of A pass by: panels are then packed one after the other to the
	// same place, which stays in the L1 cache, and read in place where that is possible.
	few bool
}

// inPlace reports whether panel p is read where it is: it must be full and b not transposed.
func (s *slab) inPlace(p panel) bool { return s.few && !s.b.Transposed && p.used == p.width }

// rows returns panel p as the micro-kernels read it, and how far its rows are apart.
func (s *slab) rows(p panel) (data []float32, stride int) {
	switch {
	case s.inPlace(p):
		return s.b.Data[p.start:], s.b.Stride
	case s.few:
		return s.packed[:p.width*s.b.Rows], p.width
	}
	return s.packed[p.start*s.b.Rows:][:p.width*s.b.Rows], p.width
}

// pack packs panel i of a slab to its place as [k][width], padded with zeros.
func (p *Path) pack(s *slab, i int) {
	part := s.at(i)
	if s.inPlace(part) {
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
	if s.of != nil {
		s.of(p, dst, dst)
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

// strip is a run of row blocks of A as the micro-kernels read them: see panelFunc.
type strip struct {
	data                              []float32
	rowStride, colStride, blockStride int
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

// rowBlock is a block of A (at most blockM rows), prepared for the micro-kernels.
type rowBlock struct {
	k    int
	full int   // whole row blocks
	rest int   // rows after them
	main strip // the whole row blocks
	tail strip // the rest, padded with zeros
}

// packFrom is the number of panels from which on it pays to pack a transposed A: each then
// reads the block again, k rows far apart, which keeps hitting the same few cache sets.
const packFrom = 3

// prepare readies a block of A, or of a function of its elements, for that many panels: whole row blocks are
// read in place where that is fast.
func (p *Path) prepare(s *scratch, a Matrix, panels int, of Elementwise) rowBlock {
	r := rowBlock{k: a.Cols, full: a.Rows / p.rows, rest: a.Rows % p.rows}
	if r.rest > 0 {
		r.tail = strip{s.tail, 1, p.rows, 0}
		dst := s.tail[:r.k*p.rows]
		clear(dst)
		packEdge(dst, a.block(a.Rows-r.rest, 0, r.rest, r.k).T(), p.rows)
		if of != nil {
			of(p, dst, dst)
		}
	}
	switch {
	case !a.Transposed && of != nil:
		r.main = strip{s.a, r.k, 1, p.rows * r.k}
		for i := range r.full * p.rows {
			of(p, s.a[i*r.k:][:r.k], a.row(i))
		}
	case !a.Transposed:
		r.main = strip{a.Data, a.Stride, 1, p.rows * a.Stride}
	case panels < packFrom && of == nil:
		r.main = strip{a.Data, 1, a.Stride, p.rows}
	default:
		r.main = strip{s.a, 1, p.rows, r.k * p.rows}
		if r.full > 0 {
			p.packStrip(s.a, r.main.blockStride, a.Data, a.Stride, r.k, r.full)
			if of != nil {
				packed := s.a[:r.full*r.main.blockStride]
				of(p, packed, packed)
			}
		}
	}
	return r
}

// mulPanel multiplies a block of A with panel i of a slab into C, whose columns are those of
// the whole slab.
func (p *Path) mulPanel(s *scratch, c Matrix, a *rowBlock, b *slab, i int, add bool) {
	t := tile{path: p, scratch: s, panel: b.at(i), k: a.k, stride: c.Stride, add: add}
	t.b, t.bStride = b.rows(t.panel)
	out := c.Data[t.start:]
	if t.used == t.width && a.full > 0 {
		t.run(a.full, a.main, out, c.Stride)
	} else {
		for j := range a.full {
			t.edge(p.rows, a.main.from(j), out[j*p.rows*c.Stride:])
		}
	}
	if a.rest > 0 {
		t.edge(a.rest, a.tail, out[a.full*p.rows*c.Stride:])
	}
}
