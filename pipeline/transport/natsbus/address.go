package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// secured is the scheme of addresses that are only talked to by TLS.
const secured = "tls"

// loopback reports that a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkURLs refuses addresses that are none, and beyond loopback those without TLS, unless plaintext
// says that the network is trusted. It reports whether all servers are on this machine. Several
// URLs are joined by commas.
func checkURLs(where string, plaintext bool) (local bool, err error) {
	local = true
	for i, text := range strings.Split(where, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err := fault(u, err); err != nil {
			return false, fmt.Errorf("URL %d of the NATS server: %w: write nats://host:port or tls://host:port", i+1, err)
		}
		here := loopback(u.Hostname())
		if !here && u.Scheme != secured && !plaintext {
			return false, fmt.Errorf("the server at %s is another machine and nats:// is not encrypted: anybody between could read "+
				"and change what passes: use tls://, or say --plaintext-network when the network between is trusted", u.Host)
		}
		local = local && here
	}
	return local, nil
}

// fault is what is wrong with a parsed URL, or nil. It quotes nothing that could be a secret.
func fault(u *url.URL, err error) error {
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.Scheme == "":
		return errors.New("it has no scheme")
	case u.User != nil:
		return errors.New("it has a user or a password, which belong into a file of credentials")
	case u.Scheme != "nats" && u.Scheme != secured:
		return fmt.Errorf("its scheme is %q", u.Scheme)
	case u.Hostname() == "":
		return errors.New("it has no host")
	}
	return nil
}

// tlsConfig is how a server is verified: pin, a certificate in PEM, is the only one accepted, whatever
// its name; else ca, in PEM, vouches for it, or the system's authorities when both are empty.
func tlsConfig(ca, pin []byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case len(pin) > 0:
		block, _ := pem.Decode(pin)
		if block == nil {
			return nil, errors.New("the pinned certificate is not in PEM")
		}
		config.InsecureSkipVerify = true // #nosec: it is verified below, more narrowly
		config.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || string(s.PeerCertificates[0].Raw) != string(block.Bytes) {
				return notPinned{}
			}
			return nil
		}
	case len(ca) > 0:
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the file of the certificate authority has no certificate in PEM")
		}
	}
	return config, nil
}

// notPinned is the error of a server that shows another certificate than the pinned one.
type notPinned struct{}

func (notPinned) Error() string {
	return "the server shows another certificate than the one that the key file names"
}

// certificatePEM is the PEM text of a certificate's first link; nil when there is none.
func certificatePEM(c *tls.Certificate) []byte {
	if c == nil || len(c.Certificate) == 0 {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}
