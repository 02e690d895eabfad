// Package kubectl runs the program of this name, which knows how to reach the user's cluster.
package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Kubectl is the program and the flags that every call has.
type Kubectl struct {
	Program string   // name or path
	Flags   []string // such as --namespace=ml
}

// Caps of what is kept of an answer and of a complaint, in bytes.
const (
	maxOutput    = 64 << 20
	maxComplaint = 64 << 10
)

// stopTime is how long a call that is cancelled may take to end.
const stopTime = 5 * time.Second

// ErrMissing is the error when there is no such program.
var ErrMissing = errors.New("kubectl is not there: install it, or render with 'andrea k8s render' and apply that elsewhere")

// Run runs one command with an input, which may be nil, and returns what it prints. The error of a command that
// fails has what it complained about.
func (k Kubectl) Run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	out := limited{left: maxOutput}
	err := k.run(ctx, bytes.NewReader(input), &out, args)
	return out.Bytes(), err
}

// Stream runs one command and writes what it prints to out as it comes.
func (k Kubectl) Stream(ctx context.Context, out io.Writer, args ...string) error {
	return k.run(ctx, nil, out, args)
}

func (k Kubectl) run(ctx context.Context, input io.Reader, out io.Writer, args []string) error {
	path, err := exec.LookPath(k.Program)
	if err != nil {
		return ErrMissing
	}
	complaint := limited{left: maxComplaint, lossy: true}
	c := exec.CommandContext(ctx, path, append(args[:len(args):len(args)], k.Flags...)...)
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = input, out, &complaint, stopTime
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// limited keeps the first bytes. It fails a command that prints more, or drops the rest.
type limited struct {
	bytes.Buffer
	left  int
	lossy bool
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	if len(kept) < len(p) && !l.lossy {
		return 0, errors.New("it prints more than is read")
	}
	l.left -= len(kept)
	l.Buffer.Write(kept)
	return len(p), nil
}
