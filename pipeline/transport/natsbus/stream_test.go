package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"andrea/pipeline/transport"

	"github.com/nats-io/nats.go"
)

// script is a connection from which bytes come in pieces of any length.
type script struct {
	net.Conn
	data []byte
	cut  func(most int) int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:s.cut(min(len(p), len(s.data)))], s.data)
	s.data = s.data[n:]
	return n, nil
}

// connected is a stream on which the library has begun to speak NATS, and its places.
func connected(t testing.TB, conn net.Conn) (*stream, *places) {
	t.Helper()
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	p := &places{inbox: "_IN.w", open: map[string]*place{}}
	s := p.wrap(near)
	if _, err := s.Write([]byte("CONNECT {}\r\n")); err != nil {
		t.Fatal(err)
	}
	s.Conn = conn
	return s, p
}

// arrived reports that an answer is in its place.
func arrived(at *place) bool {
	select {
	case <-at.done:
		return true
	default:
		return false
	}
}

// A line that announces a message and does not end says nothing of where the message does: the connection ends.
func TestALineWithoutEnd(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	s, _ := connected(t, near)
	if err := far.SetDeadline(time.Now().Add(10 * time.Second)); err != nil { // or a failure would hang
		t.Fatal(err)
	}
	go func() { _, _ = far.Write([]byte(messageLine + strings.Repeat("x", 2*maxOperation))) }()
	if n, err := s.Read(make([]byte, streamBuffer)); n > 0 || err == nil {
		t.Errorf("%d bytes of it were passed on, error %v", n, err)
	}
	if _, err := far.Write([]byte("PING\r\n")); err == nil {
		t.Error("the connection goes on")
	}
}

// However what a server sends is cut: answers that are awaited are in their places, and the library
// reads all else as it was sent.
func FuzzStream(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := []int{3, 50, 5000, 200000}[r.IntN(4)] // of a piece
		cut := func(n int) int { return 1 + r.IntN(min(n, most)) }
		conn := &script{cut: cut}
		s, p := connected(t, conn)
		payload := func() []byte {
			b := make([]byte, r.IntN([]int{1, 40, 70000}[r.IntN(3)]+1))
			for i := range b {
				b[i] = "MSG _IN.w.1 \r\nH0"[r.IntN(16)]
			}
			return b
		}
		var places []*place
		var want []byte // of the answers, one after the other
		var through []byte
		for range 1 + r.IntN(20) {
			body := payload()
			head := make([]byte, r.IntN(20))
			subject, at := p.make(head, make([]byte, len(body)))
			answer := slices.Concat(bytes.Repeat([]byte{'h'}, len(head)), body)
			var sent []byte
			switch r.IntN(6) {
			case 0:
				if len(answer) == 0 {
					continue
				}
				places, want = append(places, at), append(want, answer...)
				conn.data = fmt.Appendf(conn.data, "MSG %s 7 %d\r\n%s\r\n", subject, len(answer), answer)
				continue
			case 1: // of another length
				sent = fmt.Appendf(nil, "MSG %s 7 %d\r\n%sx\r\n", subject, len(answer)+1, answer)
			case 2: // of somebody else's
				sent = fmt.Appendf(nil, "MSG _IN.other.%d 7 %d\r\n%s\r\n", r.IntN(99), len(answer), answer)
			case 3: // with headers
				sent = fmt.Appendf(nil, "HMSG %s 7 2 %d\r\n\r\n%s\r\n", subject, 2+len(answer), answer)
			case 4: // with a subject to answer on
				sent = fmt.Appendf(nil, "MSG %s 7 _IN.x %d\r\n%s\r\n", subject, len(answer), answer)
			default:
				sent = []byte([]string{"PING\r\n", "PONG\r\n", "+OK\r\n", "-ERR 'MSG _IN.w.1 1 5'\r\n", "M\r\n", "MSG\r\n", "INFO {\"x\":\"MSG _IN.w.1 1 5\"}\r\n"}[r.IntN(7)])
			}
			through, conn.data = append(through, sent...), append(conn.data, sent...)
		}
		var read []byte
		for room := make([]byte, 1+r.IntN(40000)); ; {
			n, err := s.Read(room)
			if read = append(read, room[:n]...); err != nil {
				break
			}
		}
		if !bytes.Equal(read, through) {
			t.Errorf("the library read %.200q, sent was %.200q", read, through)
		}
		var got []byte
		for i, at := range places {
			if !arrived(at) {
				t.Errorf("answer %d has not arrived", i)
			}
			got = slices.Concat(got, at.head, at.body)
		}
		if !bytes.Equal(got, want) {
			t.Error("other answers are in the places")
		}
	})
}

// An answer that nobody waits for any more, in the middle of which the server stalls, holds nobody up and is written nowhere;
// what comes after it is read.
func TestAPlaceThatIsGivenUp(t *testing.T) {
	near, far := net.Pipe()
	s, p := connected(t, near)
	body := make([]byte, 100000)
	subject, at := p.make(nil, body)
	read := make(chan string, 1)
	go func() {
		room := make([]byte, 1000)
		n, err := s.Read(room)
		read <- fmt.Sprint(string(room[:n]), err)
	}()
	half := bytes.Repeat([]byte{'a'}, 50000)
	if _, err := fmt.Fprintf(far, "MSG %s 1 %d\r\n%s", subject, len(body), half); err != nil {
		t.Fatal(err)
	}
	p.drop(subject, at) // while the other half is read
	if arrived(at) || !bytes.Equal(body[:len(half)], half) {
		t.Error("the first half is not in its place, or all of it is said to be")
	}
	if _, err := fmt.Fprintf(far, "%s\r\nPING\r\n", strings.Repeat("b", 50000)); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, read); got != "PING\r\n<nil>" {
		t.Errorf("after it was read: %q", got)
	}
	if bytes.ContainsRune(body, 'b') {
		t.Error("it was written to a place that was given up")
	}
}

// telling is a connection that tells how much is about to be read.
type telling struct {
	net.Conn
	begun chan int
}

func (c telling) Read(p []byte) (int, error) {
	c.begun <- len(p)
	return c.Conn.Read(p)
}

// Where two answers come, the wait ends with the one that went through the library while the other one arrives: nothing more is
// written to the place then.
func TestAPlaceWithTwoAnswers(t *testing.T) {
	near, far := net.Pipe()
	begun := make(chan int, 1000)
	s, p := connected(t, telling{near, begun})
	body := make([]byte, 100000)
	subject, at := p.make(nil, body)
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1000))
		read <- err
	}()
	if _, err := fmt.Fprintf(far, "MSG %s 1 %d\r\n%s", subject, len(body), bytes.Repeat([]byte{'a'}, 50000)); err != nil {
		t.Fatal(err)
	}
	for wait(t, begun) != 50000 {
	}
	p.take(&nats.Msg{Subject: subject, Data: []byte("refused")})
	if p.drop(subject, at); !arrived(at) || string(at.answer) != "refused" {
		t.Errorf("the answer is %q", at.answer)
	}
	if _, err := fmt.Fprintf(far, "%s\r\nPING\r\n", strings.Repeat("b", 50000)); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, read); err != nil {
		t.Error(err)
	}
	if bytes.ContainsRune(body, 'b') {
		t.Error("it was written to a place whose asker had its answer")
	}
}

// Who has been asked does not know where others shall answer.
func TestPlacesCannotBeGuessed(t *testing.T) {
	_, p := connected(t, nil)
	former := ""
	for range 100 {
		subject, _ := p.make(nil, nil)
		token, ours := strings.CutPrefix(subject, "_IN.w.")
		same := 0
		for i := range min(len(token), len(former)) {
			if token[i] == former[i] {
				same++
			}
		}
		if !ours || len(token) < 20 || same > len(token)/2 {
			t.Errorf("after %q comes %q", former, token)
		}
		former = token
	}
}

// A server that falls silent in the middle of a greeting holds nobody up who gives up.
func TestAServerThatFallsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	accepted := make(chan bool)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
			_, _ = io.WriteString(conn, "INFO {\"max_payload\":1048576,\"headers\":true}\r\n")
		}
	}()
	defer func() {
		_ = l.Close()
		<-accepted
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Connect(ctx, ConnOptions{URL: "nats://" + l.Addr().String(), Credential: Credential{Role: "w1"}, Bulk: true})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(10 * dialWait):
		t.Error("it still waits for the server")
	}
}

// A message of which a part only could be written ends the connection.
func TestAMessageThatCannotBeWritten(t *testing.T) {
	near, far := net.Pipe()
	s, _ := connected(t, near)
	go func() {
		_, _ = io.ReadFull(far, make([]byte, 100))
		_ = far.Close()
	}()
	if err := s.publish("a", [][]byte{make([]byte, 10000)}); err == nil {
		t.Error("it is said to be sent")
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection: %v", err)
	}
}

// An answer arrives in its place, over every kind of connection, or whole when it is of another length.
func TestRequestInto(t *testing.T) {
	plain := startServer(t, options(t.TempDir()))
	secured := options(t.TempDir())
	a := newAuthority(t)
	secured.Certificate = &a.pair
	tls := startServer(t, secured)
	credential := func(s *Server, role string) Credential {
		c, err := s.Credential(role)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, c := range map[string]struct {
		of           string
		worker, asks transport.Bus
	}{
		"in process, of one over TCP": {"w1", connect(t, plain, "w1", true), connect(t, plain, "coordinator", false)},
		"over TCP, of one in process": {"w2", connect(t, plain, "w2", false), connect(t, plain, "coordinator", true)},
		"secured": {
			"w1", open(t, ConnOptions{URL: tls.URL(), CA: a.pem, Credential: credential(tls, "w1"), Bulk: true}),
			open(t, ConnOptions{URL: tls.URL(), CA: a.pem, Credential: credential(tls, "coordinator"), Bulk: true}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := "andrea.demo.w." + c.of + ".get"
			subscribe(t, c.worker, of, func(m transport.Message) {
				body := bytes.Repeat(m.Data[:1], 500000)
				if err := m.RespondInParts([]byte("head"), body[:len(body)-int(m.Data[1])]); err != nil {
					t.Error(err)
				}
			})
			asks := c.asks.(transport.Filler)
			head, body := make([]byte, 4), make([]byte, 500000)
			for _, letter := range []byte("ab") {
				got, err := asks.RequestInto(patience(t), of, []byte{letter, 0}, head, body)
				if got == nil {
					got = slices.Concat(head, body)
				}
				if err != nil || !bytes.Equal(got, slices.Concat([]byte("head"), bytes.Repeat([]byte{letter}, len(body)))) {
					t.Errorf("%d bytes that begin with %.9q, %v", len(got), got, err)
				}
			}
			got, err := asks.RequestInto(patience(t), of, []byte{'c', 5}, head, body)
			if err != nil || len(got) != 4+500000-5 || string(got[:5]) != "headc" {
				t.Errorf("a shorter answer: %d bytes that begin with %.9q, %v", len(got), got, err)
			}
			if _, err := asks.RequestInto(patience(t), "andrea.demo.w.w1.nobody", nil, head, body); !errors.Is(err, transport.ErrNoResponders) {
				t.Errorf("where nobody listens: %v", err)
			}
			done, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := asks.RequestInto(done, of, []byte{'d', 0}, head, body); !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
		})
	}
}

// Answers find their places, and go out from theirs, on a connection that was made anew, too.
func TestPlacesOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, options(dir))
	credential, err := s.Credential("w1")
	if err != nil {
		t.Fatal(err)
	}
	back := make(chan bool, 1)
	worker := open(t, ConnOptions{URL: s.URL(), Credential: credential, Bulk: true, Log: logOf(func(message string) {
		if strings.Contains(message, "is back") {
			back <- true
		}
	})})
	subscribe(t, worker, "andrea.demo.w.w1.get", func(m transport.Message) {
		if err := m.RespondInParts([]byte("head"), bytes.Repeat(m.Data, 100000)); err != nil {
			t.Error(err)
		}
	})
	exchange := func(s *Server) {
		t.Helper()
		coordinator := connect(t, s, "coordinator", false)
		subscribe(t, coordinator, "andrea.demo.c.get", func(m transport.Message) {
			if err := m.RespondInParts([]byte("head"), bytes.Repeat(m.Data, 100000)); err != nil {
				t.Error(err)
			}
		})
		for subject, bus := range map[string]transport.Bus{"andrea.demo.w.w1.get": coordinator, "andrea.demo.c.get": worker} {
			head, body := make([]byte, 4), make([]byte, 100000)
			got, err := bus.(transport.Filler).RequestInto(patience(t), subject, []byte("x"), head, body)
			if got != nil || err != nil || string(head) != "head" || !bytes.Equal(body, bytes.Repeat([]byte("x"), len(body))) {
				t.Errorf("on %s: %d bytes, head %q, %v", subject, len(got), head, err)
			}
		}
	}
	exchange(s)
	s.Shutdown()
	o := options(dir)
	o.Port = formerPort(s.URL())
	again := startServer(t, o)
	wait(t, back)
	subscribe(t, worker, "andrea.demo.ev.x", func(transport.Message) {}) // a round trip, after the old subscriptions
	exchange(again)
}
