package natsbus

import (
	"io"
	"net"
	"testing"

	"andrea/pipeline/transport"
)

// chunk is the size of the benchmarks' messages: beyond it nothing is gained.
const chunk = 256 << 10

// BenchmarkPull measures the path of a gradient: chunks asked for over the bus, 16 outstanding, from a
// worker on a socket to a coordinator in the server's process. Compare with BenchmarkRawTCP.
func BenchmarkPull(b *testing.B) {
	s := startServer(b, options(b.TempDir()))
	coordinator, worker := connect(b, s, "coordinator", false), connect(b, s, "w1", true)
	data := make([]byte, chunk)
	subscribe(b, worker, "andrea.demo.w.w1.get", func(m transport.Message) {
		if err := m.Respond(data); err != nil {
			b.Error(err)
		}
	})
	b.SetBytes(chunk)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got, err := coordinator.Request(b.Context(), "andrea.demo.w.w1.get", nil); err != nil || len(got) != chunk {
				b.Errorf("%d bytes, %v", len(got), err)
				return
			}
		}
	})
}

// BenchmarkRawTCP moves the same bytes over a bare loopback socket.
func BenchmarkRawTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		data := make([]byte, chunk)
		for range b.N {
			if _, err := conn.Write(data); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	data := make([]byte, chunk)
	b.SetBytes(chunk)
	for range b.N { // the sender knows this count, too
		if _, err := io.ReadFull(conn, data); err != nil {
			b.Fatal(err)
		}
	}
}
