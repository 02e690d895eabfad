package chaos

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"andrea/checkpoints"
)

// The job of all tests: it is small, and has enough to compute that several workers share it.
const (
	steps  = 20
	jobFmt = `name: demo
model: {d_model: 32, n_head: 2, n_layer: 2, context: 64}
data: {path: %s, validation: 0.1}
batch: {tokens_per_step: 2048, microbatch: 1, lanes: 8}
optimizer: {lr: 3e-3, min_lr: 3e-4, warmup_steps: 4}
steps: %d
eval: {every: 5, windows: 6}
checkpoint: {every: 4, keep_last: 3}
`
)

// The programs as users build them, the job and what it gives.
var (
	programs string // folder
	jobFile  string
	wanted   string // sums of a run in one process
	certFile string
	keyFile  string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "andrea-chaos-")
	if err != nil {
		panic(err)
	}
	if err := errors.Join(certify(dir), prepare(dir)); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// prepare builds the programs, makes the dataset and trains the job undisturbed.
func prepare(dir string) error {
	programs = filepath.Join(dir, "bin")
	jobFile = filepath.Join(dir, "job.yaml")
	build := exec.Command("go", "build", "-o", programs+"/", "andrea/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(dir, "text"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "text", "a.txt"), invented(), 0o644); err != nil {
		return err
	}
	if _, err := command(dir, "andrea", "data", "prepare", "--text", "text", "--tokenizer", "bytes", "--out", "tokens"); err != nil {
		return err
	}
	data, err := filepath.Glob(filepath.Join(dir, "tokens", "*", "dataset.json"))
	if err != nil || len(data) != 1 {
		return fmt.Errorf("%d datasets were made: %w", len(data), err)
	}
	if err := os.WriteFile(jobFile, fmt.Appendf(nil, jobFmt, filepath.Dir(data[0]), steps), 0o644); err != nil {
		return err
	}
	if _, err := command(dir, "andrea", "train", "--job", jobFile, "--run", "run"); err != nil {
		return err
	}
	wanted, err = sums(filepath.Join(dir, "run"), steps)
	return err
}

// certify writes tls.crt, which is its own authority, and tls.key, and sets the variables of the
// documented server configuration.
func certify(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	errs := []error{
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600),
		os.Setenv("ANDREA_TLS_CERT", certFile), os.Setenv("ANDREA_TLS_KEY", keyFile),
	}
	for user, variable := range users {
		errs = append(errs, os.Setenv("ANDREA_"+variable+"_PASSWORD", "secret-of-"+user))
	}
	return errors.Join(errs...)
}

// invented is a text of sentences without a meaning.
func invented() []byte {
	words := strings.Fields("the river a mountain runs under every house light falls beside some wind stone holds again")
	rng := rand.New(rand.NewPCG(3, 5))
	var text bytes.Buffer
	for range 20000 {
		text.WriteString(words[rng.IntN(len(words))])
		text.WriteString(" \n"[rng.IntN(8)/7:][:1])
	}
	return text.Bytes()
}

// command runs a program to its end and returns what it wrote; a code other than 0 is an error.
func command(dir, program string, args ...string) (stdout string, err error) {
	c := exec.Command(filepath.Join(programs, program), args...)
	c.Dir = dir
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

// sums are the SHA-256 of the tensor files of a run whose last step is given.
func sums(run string, last int) (string, error) {
	var all strings.Builder
	var errs []error
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		data, err := os.ReadFile(filepath.Join(run, "checkpoints", checkpoints.StepFolder(last), name))
		errs = append(errs, err)
		fmt.Fprintf(&all, "%x %s\n", sha256.Sum256(data), name)
	}
	return all.String(), errors.Join(errs...)
}

// judge checks that a run has ended in the bits of the undisturbed one, and that its journal
// has every window once.
func judge(t testing.TB, run string) {
	t.Helper()
	got, err := sums(run, steps)
	if err == nil && got != wanted {
		err = fmt.Errorf("other bits:\n%swant\n%s", got, wanted)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command(filepath.Dir(run), "andrea", "verify-run", run); err != nil {
		t.Fatal(err)
	}
}
