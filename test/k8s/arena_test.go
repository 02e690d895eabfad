//go:build linux

package k8s

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"andrea/test/k8s/cluster"
)

// imageVariable names the image to run on a cluster of somebody else, whose nodes hold it or can pull it.
const imageVariable = "ANDREA_IMAGE"

// clusterImage is the image's name on the nodes that are started here.
const clusterImage = "docker.io/library/andrea:test"

// arena is a cluster with nodes, and somebody who uses it.
type arena struct {
	user
	image string
	own   *cluster.Cluster // nil: it is somebody else's, and its nodes cannot be lost
	proxy string           // URL at which the API server can be asked without starting a program
	sums  *sums
}

// sums are the SHA-256 of the weights in which runs have ended, by their names.
type sums struct {
	mu sync.Mutex
	of map[string]string
}

func (s *sums) keep(run, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[run] = sum
}

// newArena finds or starts a cluster.
func newArena(t *testing.T) arena {
	t.Helper()
	a := arena{user: user{t: t, bin: t.TempDir(), kubeconfig: os.Getenv(kubeconfigVariable), kubectl: "kubectl"}, image: os.Getenv(imageVariable), sums: &sums{of: map[string]string{}}}
	switch {
	case a.kubeconfig == "":
		a.startCluster()
	case a.image == "":
		t.Fatalf("%s is set, so %s must name an image that the cluster's nodes hold or can pull", kubeconfigVariable, imageVariable)
	}
	a.buildProgram()
	a.startProxy()
	return a
}

// startCluster starts a cluster here, or skips the test and says what is missing.
func (a *arena) startCluster() {
	a.t.Helper()
	if err := cluster.Inside(); err != nil {
		a.t.Skip(err)
	}
	tools, err := cluster.FindTools("tools")
	if err != nil {
		a.t.Fatal(err)
	}
	if missing := whatIsMissing(tools); missing != "" {
		a.t.Skip(missing)
	}
	layout, pause := filepath.Join(a.t.TempDir(), "layout"), filepath.Join(a.t.TempDir(), "pause")
	build(a.t, "../..", "run", "./scripts/image", "--arch", runtime.GOARCH, "--ref", clusterImage, "--out", layout)
	build(a.t, ".", "build", "-o", pause, "./pause")
	ctx, cancel := context.WithTimeout(a.t.Context(), startTime)
	defer cancel()
	began := time.Now()
	a.own, err = cluster.StartCluster(ctx, tools, layout, pause)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := a.own.Stop(); err != nil {
			a.t.Error(err)
		}
	})
	a.t.Logf("measured: %d nodes were ready after %.1f s", len(a.own.Nodes()), time.Since(began).Seconds())
	a.kubeconfig, a.kubectl, a.image = a.own.Kubeconfig, a.own.Kubectl, clusterImage
	if err := os.Symlink(a.own.Kubectl, filepath.Join(a.bin, "kubectl")); err != nil {
		a.t.Fatal(err)
	}
}

// whatIsMissing says what nodes need that is not there; empty when all is.
func whatIsMissing(tools cluster.Tools) string {
	if missing := tools.Missing(slices.Concat(cluster.ControlPrograms, cluster.ClusterPrograms)); len(missing) > 0 {
		return fmt.Sprintf("%v are missing: %v", missing, cluster.ErrNotBuilt)
	}
	if missing := cluster.MissingPackages(); len(missing) > 0 {
		return fmt.Sprintf("nodes need the packages %v: run 'go run ./build cluster' in test/k8s as root of a Debian, or install what they have", missing)
	}
	return ""
}

// startProxy starts 'kubectl proxy'.
func (a *arena) startProxy() {
	a.t.Helper()
	c := exec.Command(a.kubectl, "proxy", "--kubeconfig="+a.kubeconfig, "--port=0")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		a.t.Fatalf("kubectl proxy: %v", err)
	}
	a.t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		a.t.Fatalf("kubectl proxy: %v", err)
	}
	a.proxy = "http://" + strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
}

// answerTime bounds an answer of the API server, which for a log asks a node that may be lost.
const answerTime = 5 * time.Second

// ask gets a path of the API; nil when there is no such thing, or no answer.
func (a arena) ask(path string) []byte {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.proxy+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// eventually waits until a condition holds. said tells what to print when it never does.
func (a arena) eventually(what string, holds func() bool, said func() string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			a.t.Fatalf("%s: it does not come\n%s", what, said())
		case <-ticker.C:
		}
	}
}
