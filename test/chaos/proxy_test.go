package chaos

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between one process and its NATS server. It passes on whole operations.
type proxy struct {
	listener net.Listener
	server   func() (address string, err error)             // where the server is now
	watch    func(point string, payload []byte, after bool) // is told of messages before and after they are passed on; nil: nobody is

	mu      sync.Mutex
	lines   map[*line]bool
	stalled time.Time     // nothing passes before
	slow    time.Time     // until then each operation takes as long as pace says
	pace    time.Duration // of an operation, and of 64 KiB more
}

// line is one connection through the proxy.
type line struct {
	client, server net.Conn
	silent         atomic.Bool   // one end is gone and the other one does not know
	cut            chan struct{} // closed when both ends are gone
	once           sync.Once
}

// newProxy starts a proxy that lives as long as the test.
func newProxy(t testing.TB, server func() (string, error), watch func(point string, payload []byte, after bool)) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: server, watch: watch, lines: map[*line]bool{}}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		p.accept()
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-accepting
		p.reset()
	})
	return p
}

// url is where clients find the proxy.
func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

// serve connects a client with the server; it is refused while there is none.
func (p *proxy) serve(client net.Conn) {
	address, err := p.server()
	var server net.Conn
	if err == nil {
		server, err = net.Dial("tcp", address)
	}
	if err != nil {
		_ = client.Close()
		return
	}
	l := &line{client: client, server: server, cut: make(chan struct{})}
	p.mu.Lock()
	p.lines[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, client, server) })
	both.Go(func() { p.pump(l, server, client) })
	both.Wait()
	p.mu.Lock()
	delete(p.lines, l)
	p.mu.Unlock()
}

// pump passes operations on until the connection ends.
func (p *proxy) pump(l *line, from, to net.Conn) {
	defer func() {
		if !l.silent.Load() {
			l.close()
		}
	}()
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		point := f.point()
		p.tell(point, f.payload, false)
		if !p.wait(l, len(f.payload)) {
			return
		}
		if l.silent.Load() {
			continue
		}
		if _, err := to.Write(append(f.line, f.payload...)); err != nil {
			return
		}
		p.tell(point, f.payload, true)
	}
}

func (p *proxy) tell(point string, payload []byte, after bool) {
	if point != "" && p.watch != nil {
		p.watch(point, payload, after)
	}
}

// wait lets the time pass that an operation takes; false: the line was cut meanwhile.
func (p *proxy) wait(l *line, size int) bool {
	for paced := false; ; {
		p.mu.Lock()
		pause := time.Until(p.stalled)
		if pause <= 0 && !paced && time.Until(p.slow) > 0 {
			pause, paced = p.pace*time.Duration(1+size>>16), true
		}
		p.mu.Unlock()
		if pause <= 0 {
			select {
			case <-l.cut:
				return false
			default:
				return true
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.cut:
			timer.Stop()
			return false
		}
	}
}

// close ends the line the hard way.
func (l *line) close() {
	l.once.Do(func() { close(l.cut) })
	abort(l.client)
	abort(l.server)
}

// silence takes the line away from one end, and nothing passes any more.
func (l *line) silence(clientKnows bool) {
	l.silent.Store(true)
	if clientKnows {
		abort(l.client)
	} else {
		abort(l.server)
	}
}

// abort closes a socket with a reset: what is on its way is lost.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// open are the lines that there are.
func (p *proxy) open() (lines []*line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		lines = append(lines, l)
	}
	return lines
}

// reset cuts all connections.
func (p *proxy) reset() {
	for _, l := range p.open() {
		l.close()
	}
}

// stall lets nothing pass for a while; nothing is lost.
func (p *proxy) stall(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = time.Now().Add(d)
}

// throttle makes every operation take some time for a while.
func (p *proxy) throttle(d, pace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow, p.pace = time.Now().Add(d), pace
}

// halfOpen takes the connections away from one end. The other end is told of it by nothing but
// silence, and by a reset after d.
func (p *proxy) halfOpen(d time.Duration, clientKnows bool) {
	for _, l := range p.open() {
		l.silence(clientKnows)
		time.AfterFunc(d, l.close)
	}
}
