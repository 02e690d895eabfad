package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"andrea/k8s"
	"andrea/launch"
	"andrea/vfs"
)

func k8sKeysCommand(o outside) *cobra.Command {
	var name, namespace string
	c := &cobra.Command{
		Use:   "keys",
		Short: "Print new Secrets for a run in a cluster",
		Long: `Print new Secrets for a run in a cluster, as YAML: NAME-server with the keys and the
certificate of its NATS server, NAME-worker, which lets in workers, and NAME-observer,
which lets in 'andrea status' and 'andrea logs'. 'andrea k8s submit' makes them by itself.`,
		Example: `  andrea k8s keys --name quickstart | kubectl apply -f -
  kubectl apply -k k8s/overlays/quickstart`,
		Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			if name == "" {
				return badInput(errors.New("making the Secrets of a run: give its name with --name"))
			}
			secrets, err := makeSecrets(o, name, namespace)
			if err != nil {
				return badInput(err)
			}
			return o.printObjects(secrets)
		},
	}
	flags := c.Flags()
	flags.StringVar(&name, "name", "", "name of the run, or of the overlay that has one")
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace (default: the one that kubectl uses)")
	return c
}

// Files in the Secrets, as the manifests name them.
const (
	certificateFile    = "tls.crt"
	certificateKeyFile = "tls.key"
)

// maxKeyFileBytes caps a key file, which the program itself has written.
const maxKeyFileBytes = 1 << 20

// makeSecrets makes keys and certificate of a run's server.
func makeSecrets(o outside, run, namespace string) (secrets []k8s.Object, err error) {
	address := k8s.NameOf(run, k8s.CoordinatorJob)
	certificate, key, err := selfSigned(address)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "andrea-keys-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := launch.MakeKeys(vfs.OS, scratch, run, "tls://"+address+":4222", certificate); err != nil {
		return nil, err
	}
	for _, s := range []struct{ secret, file string }{
		{k8s.ServerSecret, "server.json"}, {k8s.WorkerSecret, "worker.json"}, {k8s.ObserverSecret, "observer.json"},
	} {
		data, err := vfs.ReadFile(vfs.OS, filepath.Join(scratch, s.file), maxKeyFileBytes)
		if err != nil {
			return nil, err
		}
		files := map[string]string{s.file: string(data)}
		if s.secret == k8s.ServerSecret {
			files[certificateFile], files[certificateKeyFile] = string(certificate), string(key)
		}
		secrets = append(secrets, k8s.Secret(run, namespace, s.secret, files))
	}
	return secrets, nil
}

// certificateYears is how long the certificate of a run's server is good: longer than any run, since workers know it
// itself and ask no authority.
const certificateYears = 10

// selfSigned makes a certificate for a host, and its key, in PEM.
func selfSigned(host string) (certificate, key []byte, err error) {
	fail := func(err error) ([]byte, []byte, error) {
		return nil, nil, fmt.Errorf("making a certificate for %s: %w", host, err)
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(certificateYears, 0, 0), // clocks of a cluster differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		return fail(err)
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return fail(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretDER}), nil
}
