package kernel

import "andrea/cpuengine/internal/pool"

// Block sizes. A slab of B (blockK x blockN floats, 1.5 MB) is shared by all workers; a
// worker's block of A (blockM x blockK, 128 KB) stays in its L2 cache while the panels of the
// slab pass by. Products by panels have it the other way round: see byPanels. Products on one worker alone use a smaller slab of
// their own.
const (
	blockM      = 64
	blockK      = 512
	blockN      = 768
	directN     = 384 // of slabs that are not packed: one then fits in each L2 cache beside what passes by
	localBlockN = 288

	// tasksPerWorker is how many pieces a slab's part of a product is cut into at least, when its rows and
	// panels allow it, so that a worker whose core is busy elsewhere does not hold up the others.
	tasksPerWorker = 32
)

// Gemm multiplies matrices on the workers of a pool. It owns fixed buffers whose size does
// not depend on the problem, and allocates nothing after NewGemm. One caller at a time.
type Gemm struct {
	path  *Path
	pool  *pool.Pool
	slab  []float32 // packed B, by panels packed A; shared
	local []scratch // of each worker

	job    job
	shares *shares

	// The two phases of a slab, bound once: by rows of A, and by panels.
	pack, mul            func(worker, i int)
	packRows, mulByPanel func(worker, i int)
}

// job is the slab that all workers compute at the moment.
type job struct {
	c, a     Matrix // [M, n] and [M, k]
	ofA      Elementwise
	then     Then // nil before the last slab over k
	column   int  // of the whole C that c begins with
	b        slab // [k, n]
	add      bool
	perGroup int // panels of one group, by panels row blocks

	rows rowBlock // by panels: all of a, packed
}

// scratch is one worker's memory.
type scratch struct {
	slab []float32 // packed B of MulLocal, by panels one panel of it
	a    []float32 // packed block of A
	tail []float32 // packed last rows of A, padded to the micro-kernel's
	tile []float32 // a tile of C at an edge

	block   int      // of the job's rows, prepared last, by panels the panel; -1: none
	rows    rowBlock // that block
	opening bool     // it is the worker's first of the job
	panel   slab     // by panels: b, whose panel only this worker has packed
}

// NewGemm returns a Gemm with buffers for every worker of the pool, which stays the caller's.
func NewGemm(path *Path, p *pool.Pool) *Gemm {
	const slab, local, block = blockK * blockN, blockK * localBlockN, blockM * blockK
	tail, tile := path.rows*blockK, path.rows*3*path.floats
	memory := Floats(slab + p.Workers()*(local+block+tail+tile))
	next := func(n int) (part []float32) {
		part, memory = memory[:n:n], memory[n:]
		return part
	}
	g := &Gemm{path: path, pool: p, slab: next(slab), local: make([]scratch, p.Workers()), shares: newShares(tasksPerWorker * p.Workers())}
	for i := range g.local {
		g.local[i] = scratch{slab: next(local), a: next(block), tail: next(tail), tile: next(tile)}
	}
	g.pack, g.mul = g.packPiece, g.mulPiece
	g.packRows, g.mulByPanel = g.packRowsPiece, g.mulPanelPiece
	return g
}

// Then is called for every part of C, rows [row, row+rows) of columns [column, column+columns),
// once it is finished and lies in the cache of the worker that calls. Calls overlap, parts do not.
type Then func(row, column, rows, columns int)

// Elementwise sets dst to a function of every element of x, which is as long and may be the same.
type Elementwise func(p *Path, dst, x []float32)

// Product is C = A·B, or C = C + A·B when Add is set, with what is done to its elements on the way.
type Product struct {
	C, A, B  Matrix
	Add      bool
	OfA, OfB Elementwise // nil: A and B are multiplied as they are
	Then     Then        // nil: nobody is told
}

// Mul sets C = A·B, or C = C + A·B when add is set: see Run.
func (g *Gemm) Mul(c, a, b Matrix, add bool) { g.Run(Product{C: c, A: a, B: b, Add: add}) }

// Run computes a product on all workers of the pool. C must not be
// transposed nor share memory with A or B; shapes that do not fit are a programming error and
// panic. Every element is one chain of fp32 fused multiply-adds over ascending k that starts
// from +0, or from the old element when Add is set. Between rows of C nothing is written.
func (g *Gemm) Run(p Product) {
	c, a, b := p.C, p.A, p.B
	checkProduct(c, a, b)
	if emptyProduct(c, a, p.Add) {
		if p.Then != nil && c.Rows > 0 && c.Cols > 0 {
			p.Then(0, 0, c.Rows, c.Cols)
		}
		return
	}
	if byPanels(p) {
		g.runByPanels(p)
	} else {
		g.runByRows(p)
	}
	g.job = job{} // keep no hold of the caller's memory
	for i := range g.local {
		g.local[i].rows, g.local[i].panel = rowBlock{}, slab{}
	}
}

// runByRows goes over slabs of B: all of A passes by each of them, in blocks of rows.
func (g *Gemm) runByRows(p Product) {
	c, a, b := p.C, p.A, p.B
	direct, columns := p.OfB == nil && g.path.readsDirectly(b), blockN
	if direct {
		columns = directN
	}
	partN := evenly(c.Cols, columns, 3*g.path.floats)
	partK := evenly(a.Cols, blockK, 16)
	for j := 0; j < c.Cols; j += partN {
		n := min(partN, c.Cols-j)
		for kk := 0; kk < a.Cols; kk += partK {
			k := min(partK, a.Cols-kk)
			s := p
			s.C, s.A, s.B = c.block(0, j, c.Rows, n), a.block(0, kk, c.Rows, k), b.block(kk, j, k, n)
			s.Add = p.Add || kk > 0
			if kk+k < a.Cols {
				s.Then = nil
			}
			g.runSlab(s, j, direct)
		}
	}
}

// MulLocal is Mul on the calling goroutine alone, with the same bits. It uses the scratch
// memory of the given worker of the pool: calls with different workers may overlap.
func (g *Gemm) MulLocal(worker int, c, a, b Matrix, add bool) {
	checkProduct(c, a, b)
	if emptyProduct(c, a, add) {
		return
	}
	s := &g.local[worker]
	partN := evenly(c.Cols, localBlockN, 3*g.path.floats)
	partK := evenly(a.Cols, blockK, 16)
	for j := 0; j < c.Cols; j += partN {
		n := min(partN, c.Cols-j)
		for kk := 0; kk < a.Cols; kk += partK {
			k := min(partK, a.Cols-kk)
			part := slab{cut: newCut(n, g.path.floats), b: b.block(kk, j, k, n), packed: s.slab, direct: c.Rows <= blockM, single: c.Rows <= blockM}
			g.mulSlab(s, c.block(0, j, c.Rows, n), a.block(0, kk, a.Rows, k), &part, add || kk > 0)
		}
	}
}

// mulSlab packs a slab of B and multiplies all of A with it, on one worker.
func (g *Gemm) mulSlab(s *scratch, c, a Matrix, b *slab, add bool) {
	if b.single {
		rows := g.path.prepare(s, a, b.panels, nil)
		for i := range b.panels {
			g.path.pack(b, i)
			g.path.mulPanel(s, c, &rows, b, i, add, fetch{})
		}
		return
	}
	for i := range b.panels {
		g.path.pack(b, i)
	}
	for i := 0; i < c.Rows; i += blockM {
		m := min(blockM, c.Rows-i)
		rows := g.path.prepare(s, a.block(i, 0, m, a.Cols), b.panels, nil)
		for p := range b.panels {
			g.path.mulPanel(s, c.block(i, 0, m, c.Cols), &rows, b, p, add, fetch{})
		}
	}
}

// emptyProduct handles products without a multiplication and reports whether it was one.
func emptyProduct(c, a Matrix, add bool) bool {
	if c.Rows == 0 || c.Cols == 0 {
		return true
	}
	if a.Cols > 0 {
		return false
	}
	for i := range c.Rows {
		if !add {
			clear(c.Data[i*c.Stride:][:c.Cols])
		}
	}
	return true
}

// readsDirectly reports whether B is read where it lies instead of packed, by slabs of directN columns: each worker then reads
// all of it once from far, which only pays where the micro-kernel fetches it in time. Rows a multiple of 2 KB apart would share a
// few sets of the L1 cache.
func (p *Path) readsDirectly(b Matrix) bool {
	return p.lean.rowsFetch != nil && !b.Transposed && b.Stride%512 != 0
}

// runSlab packs one slab of B, as far as it is not read directly, then multiplies all of A with it. Column is where p.C
// begins in the whole C.
func (g *Gemm) runSlab(p Product, column int, direct bool) {
	j := job{c: p.C, a: p.A, ofA: p.OfA, then: p.Then, column: column, add: p.Add}
	j.b = slab{cut: newCut(p.C.Cols, g.path.floats), b: p.B, of: p.OfB, packed: g.slab, direct: direct}
	blocks := (p.C.Rows + blockM - 1) / blockM
	g.begin(j, blocks, j.b.panels)
	g.pool.Each(j.b.panels, g.pack)
	g.pool.Each(g.shares.pieces(), g.mul)
}

// begin makes j the job that the workers compute, in so many blocks, each cut into groups of n things: see tasksPerWorker.
func (g *Gemm) begin(j job, blocks, n int) {
	groups := (tasksPerWorker*g.pool.Workers() + blocks - 1) / blocks
	j.perGroup = max(1, (n+groups-1)/groups)
	g.shares.begin(blocks, max(1, (n+j.perGroup-1)/j.perGroup))
	for i := range g.local {
		g.local[i].block = -1
	}
	g.job = j
}

// packPiece packs panel i of the job's slab.
func (g *Gemm) packPiece(_, i int) { g.path.pack(&g.job.b, i) }

// mulPiece multiplies one block of rows with one group of panels.
func (g *Gemm) mulPiece(worker, _ int) {
	j, s := &g.job, &g.local[worker]
	block, group := g.shares.take(s.block)
	row, first := block*blockM, group*j.perGroup
	m := min(blockM, j.c.Rows-row)
	last := min(first+j.perGroup, j.b.panels)
	if block != s.block {
		s.opening = s.block < 0
		s.block, s.rows = block, g.path.prepare(s, j.a.block(row, 0, m, j.a.Cols), j.b.panels, j.ofA)
	}
	c := j.c.block(row, 0, m, j.c.Cols)
	for i := first; i < last; i++ {
		g.path.mulPanel(s, c, &s.rows, &j.b, i, j.add, g.fetchFor(s, i))
	}
	if j.then != nil {
		from, end := j.b.at(first), j.b.at(last-1)
		j.then(row, j.column+from.start, m, end.start+end.used-from.start)
	}
}

// fetchFor says what a worker fetches while it multiplies its block of rows with panel i: during its first block the next
// panel, which it has not read yet; then, where A is transposed, and so mostly packed, the block that is presumably its next.
func (g *Gemm) fetchFor(s *scratch, i int) fetch {
	j := &g.job
	if s.rows.full == 0 {
		return fetch{}
	}
	if s.opening {
		if i+1 == j.b.panels {
			return fetch{}
		}
		data, stride := j.b.rows(j.b.at(i + 1))
		return fetchRows(data, stride, s.rows.k, 0, s.rows.full)
	}
	next := (s.block + g.pool.Workers()) * blockM
	if !j.a.Transposed || next >= j.a.Rows {
		return fetch{}
	}
	a := j.a.block(next, 0, j.a.Rows-next, j.a.Cols)
	return fetchRows(a.Data, a.Stride, s.rows.k, i*s.rows.full, j.b.panels*s.rows.full)
}
