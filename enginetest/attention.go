package enginetest

// place is one query: head h, position i of window w.
type place struct{ w, h, i int }

// at finds, in the row of position j of the same window of a qkv matrix, the
// columns of the same head's query (part 0), key (1) or value (2).
func (s Heads) at(p place, j, part int) (lo, hi int) {
	d := s.Width()
	lo = (p.w*s.T+j)*3*d + part*d + p.h*s.Dim
	return lo, lo + s.Dim
}

// output finds the columns of the head in the row of the query of a matrix of
// Width columns.
func (s Heads) output(p place) (lo, hi int) {
	lo = (p.w*s.T+p.i)*s.Width() + p.h*s.Dim
	return lo, lo + s.Dim
}

// each calls f for every query.
func (s Heads) each(f func(place)) {
	for w := range s.Windows {
		for h := range s.Count {
			for i := range s.T {
				f(place{w, h, i})
			}
		}
	}
}

func attention[F Float](out, qkv []F, s Heads) {
	clear(out)
	p := make([]F, s.T)
	s.each(func(at place) {
		probabilities(p[:at.i+1], qkv, s, at)
		lo, hi := s.output(at)
		for j := range at.i + 1 {
			vlo, vhi := s.at(at, j, 2)
			axpy(out[lo:hi], p[j], qkv[vlo:vhi])
		}
	})
}

// probabilities writes the softmax of the scores of one query with the keys up to
// its own position.
func probabilities[F Float](p, qkv []F, s Heads, at place) {
	scale := 1 / sqrt(F(s.Dim))
	qlo, qhi := s.at(at, at.i, 0)
	for j := range p {
		klo, khi := s.at(at, j, 1)
		p[j] = dot(qkv[qlo:qhi], qkv[klo:khi]) * scale
	}
	_, sum := exponentials(p, p)
	for j := range p {
		p[j] /= sum
	}
}

// attentionBackward adds, query by query: dv_j += p_j·do; dp_j = do·v_j;
// ds_j = p_j·(dp_j - Σ p·dp); dq += ds_j·scale·k_j; dk_j += ds_j·scale·q.
func attentionBackward[F Float](dqkv, dout, qkv []F, s Heads) {
	clear(dqkv)
	scale := 1 / sqrt(F(s.Dim))
	p, dp := make([]F, s.T), make([]F, s.T)
	s.each(func(at place) {
		p, dp := p[:at.i+1], dp[:at.i+1]
		probabilities(p, qkv, s, at)
		lo, hi := s.output(at)
		do := dout[lo:hi]
		for j := range p {
			vlo, vhi := s.at(at, j, 2)
			axpy(dqkv[vlo:vhi], p[j], do)
			dp[j] = dot(do, qkv[vlo:vhi])
		}
		mean := dot(p, dp)
		qlo, qhi := s.at(at, at.i, 0)
		for j := range p {
			klo, khi := s.at(at, j, 1)
			ds := F(p[j]*(dp[j]-mean)) * scale
			axpy(dqkv[qlo:qhi], ds, qkv[klo:khi])
			axpy(dqkv[klo:khi], ds, qkv[qlo:qhi])
		}
	})
}
