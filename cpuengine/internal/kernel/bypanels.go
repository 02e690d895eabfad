package kernel

// mostRows is how many rows a product by panels has at most: a slab of A then is no larger than one of B.
const mostRows = blockN

// byPanels reports whether a product is computed panel by panel. Where A has few rows and B many columns, as in the weight gradient of a
// layer that narrows, packing B for all workers to share takes longer than those rows are worth. There A, which is packed
// anyway, takes B's place: all workers share it, and each packs the panels of B for itself, one at a time.
func byPanels(p Product) bool {
	return p.A.Transposed && p.C.Rows <= mostRows && p.C.Cols >= 2*p.C.Rows
}

// runByPanels goes over slabs of A: all of B passes by each of them, panel by panel.
func (g *Gemm) runByPanels(p Product) {
	c, rows := p.C, g.path.rows
	full, rest := c.Rows/rows, c.Rows%rows
	partK := evenly(p.A.Cols, blockK, 16)
	for kk := 0; kk < p.A.Cols; kk += partK {
		k := min(partK, p.A.Cols-kk)
		j := job{c: c, a: p.A.block(0, kk, c.Rows, k), ofA: p.OfA, add: p.Add || kk > 0}
		if kk+k == p.A.Cols {
			j.then = p.Then
		}
		j.b = slab{cut: newCut(c.Cols, g.path.floats), b: p.B.block(kk, 0, k, c.Cols), of: p.OfB, single: true}
		j.rows = rowBlock{k: k, full: full, rest: rest, main: strip{g.slab, 1, rows, k * rows}, tail: strip{g.slab[full*rows*k:], 1, rows, 0}}
		g.begin(j, j.b.panels, full)
		g.pool.Each((c.Rows+blockM-1)/blockM, g.packRows)
		g.pool.Each(g.shares.pieces(), g.mulByPanel)
	}
}

// packRowsPiece packs the i-th blockM rows of the job's A, and what is left of them after whole row blocks.
func (g *Gemm) packRowsPiece(_, i int) {
	j := &g.job
	row := i * blockM
	a := j.a.block(row, 0, min(blockM, j.a.Rows-row), j.a.Cols)
	dst := g.slab[row*a.Cols:]
	g.path.packBlocks(dst, a, j.ofA)
	g.path.packRest(dst[a.Rows/g.path.rows*g.path.rows*a.Cols:], a, j.ofA)
}

// mulPanelPiece multiplies one group of row blocks with one panel, which it packs if this worker has not.
func (g *Gemm) mulPanelPiece(worker, _ int) {
	j, s := &g.job, &g.local[worker]
	panel, group := g.shares.take(s.block)
	if panel != s.block {
		s.block, s.panel = panel, j.b
		s.panel.packed = s.slab
		g.path.pack(&s.panel, panel)
	}
	first := group * j.perGroup
	rows := j.rows.part(first, j.perGroup)
	row, m := first*g.path.rows, rows.full*g.path.rows+rows.rest
	g.path.mulPanel(s, j.c.block(row, 0, m, j.c.Cols), &rows, &s.panel, panel, j.add, g.fetchPanel(panel, first))
	if j.then != nil {
		p := j.b.at(panel)
		j.then(row, p.start, m, p.used)
	}
}

// fetchPanel says what a worker fetches while it multiplies row blocks from first on with a panel: the one that it presumably packs next.
func (g *Gemm) fetchPanel(panel, first int) fetch {
	j := &g.job
	next := panel + g.pool.Workers()
	if j.b.b.Transposed || next >= j.b.panels || j.rows.full == 0 {
		return fetch{}
	}
	return fetchRows(j.b.b.Data[j.b.at(next).start:], j.b.b.Stride, j.rows.k, first, j.rows.full)
}
