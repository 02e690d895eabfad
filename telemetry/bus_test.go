package telemetry_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/telemetry"
	"andrea/vfs"

	"go.uber.org/zap"
)

// TestListenersReceiveTheFile logs over the real server as a worker and listens as the coordinator.
func TestListenersReceiveTheFile(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	server, err := natsbus.StartServer(natsbus.ServerOptions{Run: "demo", RunDir: dir, FS: vfs.OS, Roles: []natsbus.Role{
		{Name: "coordinator", Subscribe: []string{"andrea.demo.>"}},
		{Name: "worker", Publish: []string{"andrea.demo.log.>"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	connect := func(role string) transport.Bus {
		credential, err := server.Credential(role)
		if err != nil {
			t.Fatal(err)
		}
		bus, err := natsbus.Connect(ctx, natsbus.ConnOptions{URL: server.URL(), Credential: credential, Name: role})
		if err != nil {
			t.Fatal(err)
		}
		return bus
	}
	listener, worker := connect("coordinator"), connect("worker")
	defer listener.Close()
	defer worker.Close()

	const lines = 200
	var heard bytes.Buffer
	subjects := map[string]int{}
	all := make(chan bool)
	if _, err := listener.Subscribe("andrea.demo.log.>", func(m transport.Message) {
		heard.Write(append(m.Data, '\n'))
		subjects[m.Subject]++
		if bytes.Count(heard.Bytes(), []byte("\n")) == lines {
			close(all)
		}
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "worker-1.jsonl")
	file, err := vfs.OS.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := telemetry.New(telemetry.Options{Run: "demo", Process: "worker-1", File: file, Publish: worker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines / 2 {
		log.Info("step", zap.Int("step", i))
		log.Warn("line\nbreak", zap.Int("step", i))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatal("not all lines arrived")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, heard.Bytes()) {
		t.Errorf("%d bytes in the file, %d heard", len(written), heard.Len())
	}
	if subjects["andrea.demo.log.worker-1.info"] != lines/2 || subjects["andrea.demo.log.worker-1.warn"] != lines/2 {
		t.Errorf("subjects: %v", subjects)
	}
}
