package ledger

import (
	"errors"
	"io"

	"andrea/pipeline"
)

// ReadJournal reads a journal as far as it is one. The fault, nil if there is none, tells of the first line that
// cannot follow the ones before it; the journal ends before that line. The error is about reading.
func ReadJournal(r io.Reader) (*pipeline.Journal, *Fault, error) {
	j, err := pipeline.ReadJournal(r)
	var damage *pipeline.JournalDamage
	if errors.As(err, &damage) {
		return j, &Fault{Step: int64((damage.Line-1)/2 + 1), What: err.Error()}, nil // two lines a step
	}
	return j, nil, err
}
