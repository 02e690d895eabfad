package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// maxFrame bounds the payload of a frame in bytes; the servers here take 2 MiB.
const maxFrame = 4 << 20

// frame is one operation of the NATS protocol as it is on the wire.
type frame struct {
	line    []byte // with its end
	payload []byte // with its end; nil: the operation has none
	subject string // of a message; empty: it is none
}

// readFrame reads the next operation.
func readFrame(r *bufio.Reader) (f frame, err error) {
	if f.line, err = r.ReadBytes('\n'); err != nil {
		return f, err
	}
	fields := strings.Fields(string(f.line))
	if len(fields) < 3 {
		return f, nil
	}
	switch fields[0] {
	case "PUB", "HPUB", "MSG", "HMSG":
	default:
		return f, nil
	}
	size, err := strconv.Atoi(fields[len(fields)-1]) // of headers and body together
	if err != nil || size < 0 || size > maxFrame {
		return f, fmt.Errorf("reading %q: it does not end in a size up to %d", f.line, maxFrame)
	}
	f.subject, f.payload = fields[1], make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(r, f.payload)
	return f, err
}

// point names what a message is in the protocol; empty: nothing that is struck at.
func (f frame) point() string {
	tokens := strings.Split(f.subject, ".") // see package wire
	if len(tokens) < 5 || tokens[0] != "andrea" || tokens[2] == "log" {
		return ""
	}
	switch last := tokens[len(tokens)-1]; {
	case last == "control" || tokens[3] == "hello":
		var control struct{ Kind string }
		if json.Unmarshal(f.payload, &control) != nil {
			return ""
		}
		return control.Kind
	case tokens[2] == "p":
		return "peer"
	case tokens[2] == "w" && last == "state":
		return "copy"
	default:
		return last // tokens, state, root, grad
	}
}

// points are all that a message can be, but for what tells of a fault of its sender.
var points = []string{
	"hello", "wait", "welcome", "joined", "rejoin", "lease", "cancel", "answer", "commit", "applied", "eval", "evaluated",
	"snapshot", "copied", "heartbeat", "leaving", "finish", "tokens", "state", "peer", "root", "grad", "copy",
}

func TestFrames(t *testing.T) {
	for _, c := range []struct{ wire, point string }{
		{"INFO {\"port\":4222}\r\n", ""},
		{"PING\r\n", ""},
		{"SUB andrea.demo.w.w1.control 1\r\n", ""},
		{"PUB andrea.demo.c.hello.w1 16\r\n{\"kind\":\"hello\"}\r\n", "hello"},
		{"PUB andrea.demo.c.3.w1.control _IN.w1.x.1 20\r\n{\"kind\":\"heartbeat\"}\r\n", "heartbeat"},
		{"MSG andrea.demo.w.w1.control 4 16\r\n{\"kind\":\"lease\"}\r\n", "lease"},
		{"PUB andrea.demo.c.3.w1.tokens _IN.w1.x.2 3\r\n\r\n}\r\n", "tokens"},
		{"PUB andrea.demo.c.3.w1.state _IN.w1.x.2 2\r\n{}\r\n", "state"},
		{"HMSG andrea.demo.w.w1.state 4 _IN.c.x.2 12 14\r\nNATS/1.0\r\n\r\n{}\r\n", "copy"},
		{"MSG andrea.demo.w.w1.grad 4 _IN.c.x.2 0\r\n\r\n", "grad"},
		{"PUB andrea.demo.p.w1.w2.state _IN.w1.x.2 0\r\n\r\n", "peer"},
		{"PUB andrea.demo.log.w1.info 2\r\n{}\r\n", ""},
		{"MSG _IN.w1.x.2 4 0\r\n\r\n", ""},
	} {
		r := bufio.NewReader(strings.NewReader(c.wire + "PONG\r\n"))
		f, err := readFrame(r)
		if err != nil || string(append(bytes.Clone(f.line), f.payload...)) != c.wire || f.point() != c.point {
			t.Errorf("%q: %q %q, point %q, %v", c.wire, f.line, f.payload, f.point(), err)
		}
		if next, err := readFrame(r); err != nil || string(next.line) != "PONG\r\n" {
			t.Errorf("after %q: %q, %v", c.wire, next.line, err)
		}
	}
	for _, bad := range []string{"PUB a b\r\n", "MSG a 1 -1\r\n", "MSG a 1 99999999\r\n", "PUB a 5\r\nab"} {
		if f, err := readFrame(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q was read as %q", bad, f.line)
		}
	}
}
