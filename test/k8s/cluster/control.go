package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Control is a running etcd and API server. They listen in namespaces of their own, so ports are fixed.
type Control struct {
	Kubeconfig string // of an administrator
	Kubectl    string // the program
	dir        string
	token      string
	processes  []*exec.Cmd
	ended      chan string // the name of a process that has ended
}

// maxProcesses bounds how many processes a Control has: etcd, the API server, and what a Cluster adds.
const maxProcesses = 8

const (
	etcdURL = "http://127.0.0.1:2379"
	peerURL = "http://127.0.0.1:2380"
	apiURL  = "https://127.0.0.1:6443"
)

// StartControl starts a control plane with its files in a folder, and waits until it is ready.
func StartControl(ctx context.Context, tools Tools, dir string) (*Control, error) {
	c := &Control{dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), Kubectl: tools.Path(Kubectl), ended: make(chan string, maxProcesses)}
	err := c.writeFiles()
	if err == nil {
		err = c.start(tools.Path(Etcd), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL, "--listen-peer-urls="+peerURL,
			"--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL)
	}
	if err == nil {
		key := filepath.Join(dir, "accounts.key")
		err = c.start(tools.Path(APIServer), "--etcd-servers="+etcdURL, "--bind-address=0.0.0.0", "--advertise-address=127.0.0.1", "--secure-port=6443",
			"--cert-dir="+filepath.Join(dir, "certificates"), "--token-auth-file="+filepath.Join(dir, "tokens.csv"), "--authorization-mode=Node,RBAC",
			"--kubelet-preferred-address-types=InternalIP", "--service-account-key-file="+key, "--service-account-signing-key-file="+key, "--service-account-issuer=https://kubernetes.default.svc",
			"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none")
	}
	if err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	return c, nil
}

// writeFiles writes what the API server and its users need to know each other: an administrator and the nodes.
func (c *Control) writeFiles() error {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	c.token = hex.EncodeToString(random[:])
	users := c.token + ",admin,admin,system:masters\n"
	for _, node := range nodeNames {
		users += fmt.Sprintf("%s,system:node:%[2]s,%[2]s,system:nodes\n", c.nodeToken(node), node)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	accounts := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return errors.Join(
		os.WriteFile(filepath.Join(c.dir, "accounts.key"), accounts, 0o600),
		os.WriteFile(filepath.Join(c.dir, "tokens.csv"), []byte(users), 0o600),
		os.WriteFile(c.Kubeconfig, kubeconfig(apiURL, c.token), 0o600))
}

// nodeToken is what a node shows the API server.
func (c *Control) nodeToken(node string) string { return c.token + node }

// kubeconfig leads a user to the API server. Its certificate is made at its start, and nobody else is in this network.
func kubeconfig(url, token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, url, token)
}

// start starts a program, with its log in a file.
func (c *Control) start(program string, args ...string) error {
	log, err := os.Create(filepath.Join(c.dir, filepath.Base(program)+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has it
	p := exec.Command(program, args...)
	p.Stdout, p.Stderr, p.Dir = log, log, c.dir
	if err := p.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	go func() {
		_ = p.Wait() // its log says why
		c.ended <- filepath.Base(program)
	}()
	return nil
}

// await asks the API server until it is ready.
func (c *Control) await(ctx context.Context) error {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, apiURL+"/readyz", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case name := <-c.ended:
			c.ended <- name
			return fmt.Errorf("%s has ended\n%s", name, c.logs())
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w\n%s", ctx.Err(), c.logs())
		case <-ticker.C:
		}
	}
}

// logs is the end of what the processes have said.
func (c *Control) logs() string {
	const end = 2000
	var all string
	for _, p := range c.processes {
		name := filepath.Base(p.Path)
		data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
		if err != nil {
			continue
		}
		all += name + ": ..." + string(data[max(0, len(data)-end):]) + "\n"
	}
	return all
}

// Stop ends the processes.
func (c *Control) Stop() {
	for _, p := range c.processes {
		_ = p.Process.Kill() // it may have ended
	}
	for range c.processes {
		<-c.ended
	}
	c.processes = nil
}
