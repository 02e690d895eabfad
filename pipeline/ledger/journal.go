package ledger

import (
	"bytes"
	"sort"

	"andrea/pipeline"
)

// ParseJournal reads a journal as far as it is one. The fault, nil if there is none, tells of the first line that
// cannot follow the ones before it; the journal ends before that line.
func ParseJournal(data []byte) (*pipeline.Journal, *Fault) {
	whole, err := pipeline.ParseJournal(data)
	if err == nil {
		return whole, nil
	}
	ends := lineEnds(data)
	line := sort.Search(len(ends), func(i int) bool {
		_, err := pipeline.ParseJournal(data[:ends[i]])
		return err != nil
	})
	good := 0
	if line > 0 {
		good = ends[line-1]
	}
	before, _ := pipeline.ParseJournal(data[:good])                   // the search has read these lines
	return before, &Fault{Step: int64(line/2 + 1), What: err.Error()} // two lines a step
}

// lineEnds is where each whole line ends, behind its newline.
func lineEnds(data []byte) (ends []int) {
	for at := 0; ; {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return ends
		}
		at += n + 1
		ends = append(ends, at)
	}
}
