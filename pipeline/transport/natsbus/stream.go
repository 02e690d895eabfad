package natsbus

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// streamBuffer is how many bytes one read brings at most that does not go to its place at once: little, since
	// the beginning of an answer is among them.
	streamBuffer = 16 << 10
	// maxOperation is the longest line that begins a message, in bytes: subjects and numbers. A server's own limit is 4 KiB.
	maxOperation = 8 << 10
)

const (
	// writeWait is how long one write may take: as the library has it.
	writeWait = time.Minute
	// shortPart is the length from which on a part of a message is written from where it lies.
	shortPart = 4 << 10
)

// messageLine begins the line that announces a message without headers.
const messageLine = "MSG "

// stream is the library's connection to a server. It keeps what the server sends for somebody in places
// from the library, which would clear new memory for it and copy it there first, and takes answers from where
// they lie, which the library would copy into its buffer; all else goes through it as it is.
type stream struct {
	net.Conn
	places *places

	writing sync.Mutex
	plain   bool // the library speaks NATS here, and not TLS; settled before it is connected

	buf   []byte // what was read
	out   []byte // of it, for the library
	taken int    // of out, by the library

	line    []byte // begun and held back: it may announce a message
	through bool   // the line that was begun is none of that, and goes through
	pass    int    // bytes of a message to go through
	fill    filling
}

// wrap makes a stream of a connection.
func (p *places) wrap(conn net.Conn) *stream {
	s := &stream{Conn: conn, places: p}
	p.stream.Store(s)
	return s
}

// Write implements net.Conn. The library's first words tell what it speaks; it writes whole operations.
func (s *stream) Write(data []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.plain && bytes.HasPrefix(data, []byte("CONNECT ")) {
		s.plain = true
	}
	if s.plain {
		if err := s.Conn.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
			return 0, err
		}
	}
	return s.Conn.Write(data)
}

// SetWriteDeadline implements net.Conn: every write has one of its own, which no other one's takes away.
func (s *stream) SetWriteDeadline(t time.Time) error {
	if s.plain {
		return nil
	}
	return s.Conn.SetWriteDeadline(t)
}

// publish sends a message from where its parts lie.
func (s *stream) publish(subject string, parts [][]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	operation := fmt.Appendf(nil, "PUB %s %d\r\n", subject, size)
	if len(parts) > 0 && len(parts[0]) < shortPart { // to write it alone would cost more than a copy
		operation, parts = append(operation, parts[0]...), parts[1:]
	}
	all := append(append(net.Buffers{operation}, parts...), []byte("\r\n"))
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.Conn.SetWriteDeadline(time.Now().Add(writeWait))
	if err == nil {
		_, err = all.WriteTo(s.Conn)
	}
	if err != nil {
		_ = s.Conn.Close() // the server would take what follows for the rest of the message
	}
	return err
}

// Read implements net.Conn. It belongs to one goroutine of the library at a time, which has written before it reads
// what is not to be passed on as it is.
func (s *stream) Read(data []byte) (int, error) {
	if s.taken == len(s.out) && !s.plain {
		return s.Conn.Read(data)
	}
	if s.buf == nil {
		s.buf = make([]byte, streamBuffer)
	}
	for s.taken == len(s.out) {
		s.out, s.taken = s.out[:0], 0
		if s.places.receive(s.Conn, &s.fill) {
			continue
		}
		n, err := s.Conn.Read(s.buf)
		s.sort(s.buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = s.places.resume(s.Conn)
		}
		if err != nil && len(s.out) == 0 {
			return 0, err
		}
	}
	n := copy(data, s.out[s.taken:])
	s.taken += n
	return n, nil
}

// sort puts what was read where it belongs.
func (s *stream) sort(data []byte) {
	for len(data) > 0 {
		switch {
		case s.fill.left > 0:
			n := min(s.fill.left, len(data))
			s.places.write(&s.fill, data[:n])
			data = data[n:]
		case s.pass > 0:
			n := min(s.pass, len(data))
			s.out = append(s.out, data[:n]...)
			s.pass -= n
			data = data[n:]
		default:
			data = s.operation(data)
		}
	}
}

// operation takes bytes of a line, up to its end at most, and returns the others.
func (s *stream) operation(data []byte) (rest []byte) {
	end := bytes.IndexByte(data, '\n') + 1
	ended := end > 0
	if !ended {
		end = len(data)
	}
	part, rest := data[:end], data[end:]
	if s.through {
		s.out = append(s.out, part...)
		s.through = !ended
		return rest
	}
	s.line = append(s.line, part...)
	switch {
	case ended:
		s.announced(s.line)
		s.line = s.line[:0]
	case !announces(s.line):
		s.out = append(s.out, s.line...)
		s.line, s.through = s.line[:0], true
	case len(s.line) > maxOperation:
		_ = s.Conn.Close() // where its message ends cannot be told, and what is in it must not be taken for lines
	}
	return rest
}

// announces reports that a line, or the beginning of one, announces a message with or without headers.
func announces(line []byte) bool {
	begins := func(with string) bool {
		n := min(len(line), len(with))
		return string(line[:n]) == with[:n]
	}
	return begins(messageLine) || begins("H"+messageLine)
}

// announced takes a whole line: MSG subject sid [reply] size, or one with headers, or another operation.
func (s *stream) announced(line []byte) {
	fields := bytes.Fields(line)
	if len(fields) < 4 || !announces(line) {
		s.out = append(s.out, line...)
		return
	}
	size, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || size < 0 {
		s.out = append(s.out, line...) // it is the library's to complain
		return
	}
	if line[0] != 'H' && len(fields) == 4 {
		if s.fill = s.places.find(fields[1], size); s.fill.left > 0 {
			return
		}
	}
	s.out = append(s.out, line...)
	s.pass = size + len("\r\n")
}
