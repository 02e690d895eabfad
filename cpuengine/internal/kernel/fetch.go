package kernel

// fetch is memory that a micro-kernel fetches while it computes, so that whoever reads it later does not wait: under block t of
// the call a piece of four cache lines for every 1<<shift steps over k, of which number i lies at data[t*step+i*stride].
type fetch struct {
	data                []float32 // nil: nothing
	stride, step, shift int
}

// fetchRows plans to fetch k rows of memory, stride apart, each as its first four lines, in the course of so many blocks of k
// steps. It returns what to fetch from block first on. Where there are too few blocks not all rows come, nor where k
// is 8 or more above a multiple of 16: micro-kernels fetch in whole rounds of 16 steps.
func fetchRows(data []float32, stride, k, first, blocks int) fetch {
	perBlock := (k + blocks - 1) / blocks
	from := first * perBlock
	if from >= k {
		return fetch{}
	}
	f := fetch{data: data[from*stride:], stride: stride, step: perBlock * stride}
	f.shift = 3 // with a piece in less than 8 steps, memory would not keep up
	for k>>(f.shift+1) >= perBlock {
		f.shift++
	}
	return f
}
