package launch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"andrea/vfs"
)

// reach makes sure that the run's server and its probes can be had at their addresses, and with its
// keys. It takes the address of the probes, and that of the server for a moment.
func (r *Run) reach() (err error) {
	if r.env.HTTP != "" {
		if r.probesAt, err = listenForProbes(r.env.HTTP); err != nil {
			return err
		}
	}
	if r.env.NATS.URL != "" {
		return nil // checkReach has read what lets it in
	}
	if _, err := r.serverOptions(); err != nil || r.env.Listen == "" {
		return err
	}
	trial, err := net.Listen("tcp", r.env.Listen)
	if err != nil {
		return fmt.Errorf("listening at %q: %w: give another address with --listen", r.env.Listen, err)
	}
	return trial.Close()
}

// readCertificate is the certificate that the embedded server shows; nil when it has none.
func readCertificate(env Environment) (*tls.Certificate, error) {
	if env.TLSCert == "" && env.TLSKey == "" {
		return nil, nil
	}
	fail := func(err error) (*tls.Certificate, error) {
		return nil, fmt.Errorf("reading the server's certificate: %w: give PEM files with --tls-cert and --tls-key", err)
	}
	cert, err := vfs.ReadFile(env.FS, env.TLSCert, maxCABytes)
	if err != nil {
		return fail(err)
	}
	key, err := vfs.ReadFile(env.FS, env.TLSKey, maxCABytes)
	if err != nil {
		return fail(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fail(err)
	}
	return &pair, nil
}

// checkReach refuses what the server could not be reached by, before anything is written.
func checkReach(env Environment) error {
	host, _, err := listenAt(env.Listen)
	if err != nil {
		return err
	}
	certificate, err := readCertificate(env)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() && certificate == nil {
		return fmt.Errorf("listening at %q: it is no loopback address, and there is no TLS: give a certificate with "+
			"--tls-cert and --tls-key, or listen at 127.0.0.1 and forward the port", env.Listen)
	}
	if env.NATS.URL == "" {
		return nil
	}
	if env.Listen != "" || certificate != nil || env.Keys != "" {
		return errors.New("a run on somebody else's server has none of its own: leave out --listen, --tls-cert, --tls-key and --keys, or --nats")
	}
	_, err = env.NATS.coordinator(env.FS)
	return err
}

// listenAt takes a listening address apart; zero values mean anywhere on loopback.
func listenAt(address string) (host string, port int, err error) {
	if address == "" {
		return "", 0, nil
	}
	host, portText, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(portText)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listening at %q: it is no host:port such as 127.0.0.1:4222", address)
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("listening at %q: its host is no IP address: listen at 127.0.0.1, or with TLS at 0.0.0.0", address)
	}
	return host, port, nil
}
