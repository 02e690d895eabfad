package kernel

// slab is a part of B cut into panels.
type slab struct {
	cut
	b      Matrix      // [k, columns]
	of     Elementwise // applied to what is packed; nil: none
	packed []float32
	direct bool // panels are read where they lie if they can be
	single bool // those packed are so one after the other to the same place, which stays in a cache
}

// inPlace reports whether panel p is read where it lies: it must be full, of no function, and b not transposed.
func (s *slab) inPlace(p panel) bool {
	return s.direct && s.of == nil && !s.b.Transposed && p.used == p.width
}

// rows returns panel p as the micro-kernels read it, and how far its rows are apart.
func (s *slab) rows(p panel) (data []float32, stride int) {
	switch {
	case s.inPlace(p):
		return s.b.Data[p.start:], s.b.Stride
	case s.single:
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

// run multiplies whole row blocks. The general micro-kernels fetch nothing for later.
func (t *tile) run(blocks int, a strip, c []float32, stride int, f fetch) {
	p := t.path
	lean := t.leanFor(blocks, a, f)
	if lean == nil {
		p.panel[t.vectors-1](blocks, t.k, a.data, a.rowStride, a.colStride, a.blockStride, t.b, t.bStride, c, stride, t.add)
		return
	}
	if f.data == nil {
		f.data = t.b // in the cache anyway
	}
	lean(blocks, t.k, a.data, a.rowStride, t.b, t.bStride, c, stride, t.add, f.data, f.stride, f.step, f.shift)
}

// leanFor returns the lean micro-kernel that computes blocks of a strip; nil: none.
func (t *tile) leanFor(blocks int, a strip, f fetch) leanFunc {
	p := t.path
	switch {
	case t.vectors < 3:
		return nil
	case a.rowStride == 1 && a.colStride == p.rows && (blocks == 1 || a.blockStride == t.k*p.rows):
		return p.lean.packed
	case a.colStride != 1 || blocks > 1 && a.blockStride != p.rows*a.rowStride:
		return nil
	case f.data != nil:
		return p.lean.rowsFetch
	}
	return p.lean.rows
}

// edge computes a tile of which only rows x used exist in C, by way of a full one.
func (t *tile) edge(rows int, a strip, c []float32) {
	whole := t.scratch.tile[:t.path.rows*t.width]
	if t.add {
		for r := range rows {
			copy(whole[r*t.width:], c[r*t.stride:][:t.used])
		}
	}
	t.run(1, a, whole, t.width, fetch{})
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

// part returns n whole row blocks from first on, or what there is, and the rest if no other comes after them.
func (r *rowBlock) part(first, n int) rowBlock {
	p := *r
	p.full = min(n, r.full-first)
	if first+p.full < r.full {
		p.rest = 0
	}
	p.main = r.main.from(first)
	return p
}

// packFrom is the number of panels from which on it pays to pack a transposed A: each then
// reads the block again, k rows far apart, which keeps hitting the same few cache sets.
const packFrom = 3

// prepare readies a block of A, or of a function of its elements, for that many panels: whole row blocks are
// read in place where that is fast.
func (p *Path) prepare(s *scratch, a Matrix, panels int, of Elementwise) rowBlock {
	r := rowBlock{k: a.Cols, full: a.Rows / p.rows, rest: a.Rows % p.rows, tail: strip{s.tail, 1, p.rows, 0}}
	p.packRest(s.tail, a, of)
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
		p.packBlocks(s.a, a, of)
	}
	return r
}

// packBlocks packs the whole row blocks of a transposed A, or of a function of its elements, one after the other.
func (p *Path) packBlocks(dst []float32, a Matrix, of Elementwise) {
	full := a.Rows / p.rows
	if full == 0 {
		return
	}
	p.packStrip(dst, a.Cols*p.rows, a.Data, a.Stride, a.Cols, full)
	if of != nil {
		packed := dst[:full*p.rows*a.Cols]
		of(p, packed, packed)
	}
}

// packRest packs the rows after the whole row blocks as one more, padded with zeros.
func (p *Path) packRest(dst []float32, a Matrix, of Elementwise) {
	rest := a.Rows % p.rows
	if rest == 0 {
		return
	}
	dst = dst[:a.Cols*p.rows]
	clear(dst)
	packEdge(dst, a.block(a.Rows-rest, 0, rest, a.Cols).T(), p.rows)
	if of != nil {
		of(p, dst, dst)
	}
}

// mulPanel multiplies a block of A with panel i of a slab into C, whose columns are those of
// the whole slab, and fetches what is told.
func (p *Path) mulPanel(s *scratch, c Matrix, a *rowBlock, b *slab, i int, add bool, f fetch) {
	t := tile{path: p, scratch: s, panel: b.at(i), k: a.k, stride: c.Stride, add: add}
	t.b, t.bStride = b.rows(t.panel)
	out := c.Data[t.start:]
	if t.used == t.width && a.full > 0 {
		t.run(a.full, a.main, out, c.Stride, f)
	} else {
		for j := range a.full {
			t.edge(p.rows, a.main.from(j), out[j*p.rows*c.Stride:])
		}
	}
	if a.rest > 0 {
		t.edge(a.rest, a.tail, out[a.full*p.rows*c.Stride:])
	}
}
