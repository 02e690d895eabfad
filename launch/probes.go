package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// probeTime bounds an answer to a probe.
const probeTime = time.Second

// probes answer over HTTP whether a process is alive, started and ready, for those who start and
// stop processes. Progress is nobody's to judge: a step may take long.
type probes struct {
	started func(context.Context) error
	ready   func(context.Context) error
	metrics func(context.Context) (string, error) // in Prometheus' text format; nil: there are none
}

// listenProbes answers at an address until the function that it returns is called. Without an
// address it does nothing.
func listenProbes(address string, p probes) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := listenForProbes(address)
	if err != nil {
		return nil, err
	}
	return serveProbes(listener, p), nil
}

// listenForProbes takes an address; the error names it.
func listenForProbes(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, KeyError{fmt.Errorf("answering probes at %s: %w: give another address with --http", address, err)}
	}
	return listener, nil
}

// serveProbes answers until the function that it returns is called, which closes the listener.
func serveProbes(listener net.Listener, p probes) (stop func() error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answerProbe(func(context.Context) error { return nil }))
	mux.HandleFunc("GET /startupz", answerProbe(p.started))
	mux.HandleFunc("GET /readyz", answerProbe(p.ready))
	if p.metrics != nil {
		mux.HandleFunc("GET /metrics", answerMetrics(p.metrics))
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTime, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	gone := make(chan error, 1)
	go func() { gone <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		if ended := <-gone; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}
}

// answerProbe answers 200 when check finds nothing wrong, else 503 with the reason.
func answerProbe(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeTime)
		defer cancel()
		if err := check(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // who asked has gone, or asks again
	}
}

func answerMetrics(read func(context.Context) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeTime)
		defer cancel()
		text, err := read(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = strings.NewReader(text).WriteTo(w)
	}
}
