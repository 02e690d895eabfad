package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"andrea/model"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/vfs"
)

// moved is what it took to move bytes.
type moved struct{ bytes, seconds, cpu float64 }

// measure adds what f takes, in this process, on all its threads.
func (m *moved) measure(b *testing.B, bytes int, f func()) {
	b.Helper()
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	cpu, began := used(), time.Now()
	f()
	m.bytes, m.seconds, m.cpu = m.bytes+float64(bytes), m.seconds+time.Since(began).Seconds(), m.cpu+used()-cpu
}

// report gives GB/s and core-seconds for each GB.
func (m *moved) report(b *testing.B, what string) {
	b.ReportMetric(m.bytes/m.seconds/1e9, what+"-GB/s")
	b.ReportMetric(m.cpu/m.bytes*1e9, what+"-cpu-s/GB")
}

// exchangeBuckets is how many whole buckets one round moves: the gradient of 12M and a bit.
const exchangeBuckets = 13

// BenchmarkExchange moves a gradient as a coordinator pulls it, from a worker's connection over
// TCP through the embedded server, beside a copy of the same bytes over a bare loopback socket and
// beside requests for them that NATS alone carries, in turns. Both ends are in this process, so the
// processor time is that of both.
func BenchmarkExchange(b *testing.B) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 0 // as in the program
	held, arrived := make([]float32, exchangeBuckets*model.BucketSize), make([]float32, exchangeBuckets*model.BucketSize)
	for i := range held {
		held[i] = float32(i) // pages that are really there
	}
	pull, request := exchanging(b, held)
	send := copying(b, bytesOf(held), bytesOf(arrived))
	var raw, alone, pulled moved
	for b.Loop() {
		raw.measure(b, 4*len(held), send)
		alone.measure(b, 4*len(held), request)
		pulled.measure(b, 4*len(held), func() { pull(arrived) })
	}
	if !slices.Equal(held, arrived) {
		b.Fatal("other bytes arrived")
	}
	raw.report(b, "raw")
	alone.report(b, "nats")
	pulled.report(b, "pull")
	b.ReportMetric(pulled.cpu/raw.cpu, "pull/raw-cpu")
	b.ReportMetric(alone.cpu/raw.cpu, "nats/raw-cpu")
}

// bytesOf is the memory of x.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// exchanging sets up a worker that serves a gradient, and returns what pulls it and what
// asks for as many bytes without frames and checksums.
func exchanging(b *testing.B, held []float32) (pull func(dst []float32), request func()) {
	b.Helper()
	worker, here := connected(b)
	_, err := serveGrad(worker, wire.WorkerGrad("demo", "w1"), exchangeBuckets, func(r wire.GradRequest, use func(bucket []float32) error) error {
		return use(held[r.Bucket*model.BucketSize:][:model.BucketSize])
	})
	if err != nil {
		b.Fatal(err)
	}
	bytes := bytesOf(held)
	const bare = "andrea.demo.w.w1.bare"
	if _, err := worker.Subscribe(bare, func(m transport.Message) {
		offset, err := strconv.Atoi(string(m.Data))
		if err == nil {
			err = m.Respond(bytes[offset:min(offset+4*wire.ChunkElements, len(bytes))])
		}
		if err != nil {
			b.Error(err)
		}
	}); err != nil {
		b.Fatal(err)
	}
	pulls := puller{bus: here}
	pull = func(dst []float32) {
		for bucket := range exchangeBuckets {
			if err := pulls.pullGrad(context.Background(), wire.WorkerGrad("demo", "w1"), 1, 0, 8, bucket, dst[bucket*model.BucketSize:][:model.BucketSize]); err != nil {
				b.Fatal(err)
			}
		}
	}
	return pull, func() { requestAll(b, here, bare, len(bytes)) }
}

// requestAll asks for chunks of bare bytes, as many at once as a pull does.
func requestAll(b *testing.B, here transport.Bus, subject string, size int) {
	var group sync.WaitGroup
	window := make(chan struct{}, pullWindow)
	for offset := 0; offset < size; offset += 4 * wire.ChunkElements {
		window <- struct{}{}
		group.Go(func() {
			defer func() { <-window }()
			if _, err := here.Request(context.Background(), subject, []byte(strconv.Itoa(offset))); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
}

// connected starts a server and returns a worker's connection to it, over TCP, and the coordinator's, in
// the process.
func connected(b *testing.B) (worker, here transport.Bus) {
	b.Helper()
	w, c := wire.WorkerPermissions("demo", "w1"), wire.CoordinatorPermissions("demo")
	server, err := natsbus.StartServer(natsbus.ServerOptions{Run: "demo", RunDir: b.TempDir(), FS: vfs.OS, Roles: []natsbus.Role{
		{Name: "coordinator", Publish: c.Publish, Subscribe: c.Subscribe}, {Name: "w1", Publish: w.Publish, Subscribe: w.Subscribe},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Shutdown)
	connect := func(role string, o natsbus.ConnOptions) transport.Bus {
		if o.Credential, err = server.Credential(role); err != nil {
			b.Fatal(err)
		}
		o.Bulk, o.Name = true, role
		bus, err := natsbus.Connect(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = bus.Close() })
		return bus
	}
	return connect("w1", natsbus.ConnOptions{URL: server.URL()}), connect("coordinator", natsbus.ConnOptions{Server: server})
}

// copying connects two sockets and returns what sends all bytes from one to the other, chunk by
// chunk, from where they lie to where they shall be.
func copying(b *testing.B, out, in []byte) func() {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	from, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	to, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _, _ = from.Close(), to.Close(), listener.Close() })
	return func() {
		sent := make(chan error, 1)
		go func() {
			var err error
			for chunk := range slices.Chunk(out, 4*wire.ChunkElements) {
				if _, err = from.Write(chunk); err != nil {
					break
				}
			}
			sent <- err
		}()
		var err error
		for chunk := range slices.Chunk(in, 4*wire.ChunkElements) {
			if _, err = io.ReadFull(to, chunk); err != nil {
				break
			}
		}
		if err := errors.Join(err, <-sent); err != nil {
			b.Fatal(err)
		}
	}
}
