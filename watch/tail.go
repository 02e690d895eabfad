package watch

import (
	"bytes"
	"fmt"
	"io"
)

// readSize is how many bytes are asked of a reader at once.
const readSize = 64 << 10

// Tail cuts the log of one process into lines. Its reader may say io.EOF and have more later, as a file
// does that grows. A Tail holds at most MaxLine bytes of a line, however long it is.
type Tail struct {
	process string
	from    io.Reader
	buffer  []byte // of readSize
	unread  []byte // part of buffer
	begun   []byte // the beginning of the line that has no end yet, at most MaxLine+1 bytes
	length  int    // of that line so far
}

// NewTail returns a Tail of a process's log.
func NewTail(process string, from io.Reader) *Tail {
	return &Tail{process: process, from: from, buffer: make([]byte, readSize)}
}

// Next returns the next whole line. io.EOF: there is none yet. Any other error is the reader's.
func (t *Tail) Next() (Line, error) {
	for {
		part, rest, ended := bytes.Cut(t.unread, []byte("\n"))
		t.begun = append(t.begun, part[:min(len(part), MaxLine+1-len(t.begun))]...)
		t.length += len(part)
		t.unread = rest
		if ended {
			return t.end(), nil
		}
		n, err := t.from.Read(t.buffer)
		t.unread = t.buffer[:n]
		if n == 0 && err != nil {
			return Line{}, err
		}
	}
}

// end takes the line that has just ended.
func (t *Tail) end() Line {
	raw, length := t.begun, t.length
	t.begun, t.length = nil, 0
	if length > MaxLine {
		return Damaged(t.process, raw, length, fmt.Sprintf("longer than %d bytes", MaxLine))
	}
	return Parse(t.process, raw)
}

// Torn returns the line that has begun and not ended, as a damaged one; ok tells whether there is one.
// It can still be ended and returned whole by Next.
func (t *Tail) Torn() (l Line, ok bool) {
	return Damaged(t.process, t.begun, t.length, "it has no end: torn by a crash, or being written"), t.length > 0
}
