package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// output is standard output. It remembers that something was lost on its way there, so that no
// command ends with success whose result nobody got. It may be used by several goroutines.
type output struct {
	to       io.Writer
	messages io.Writer

	mu       sync.Mutex
	lost     error // of the first write that failed; nothing is written after it
	goesOn   bool  // the command is for more than its output
	reported bool
}

// Write writes, unless a write has failed before.
func (o *output) Write(b []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost != nil {
		return 0, o.lost
	}
	if n, o.lost = o.to.Write(b); o.lost != nil && o.goesOn {
		o.report(": going on without it")
	}
	return n, o.lost
}

// report says once what was lost; what follows from that is then.
func (o *output) report(then string) {
	if !o.reported {
		o.reported = true
		fmt.Fprintf(o.messages, "andrea: writing to standard output: %v%s\n", o.lost, then)
	}
}

// goOn makes a command that is for more than its output go on when that is lost.
func (o *output) goOn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.goesOn = true
	outlivePipes()
}

// end returns the exit code of a command that did all else that it is for.
func (o *output) end() int {
	if o.whole() {
		return exitDone
	}
	o.report("")
	return exitFailed
}

// whole reports that nothing was lost.
func (o *output) whole() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost == nil
}

// file is where the output goes when that is a file or a terminal.
func (o outside) file() (f *os.File, ok bool) {
	to := o.stdout
	if out, wrapped := to.(*output); wrapped {
		to = out.to
	}
	f, ok = to.(*os.File)
	return f, ok
}

// goOnWithout makes a command that is for more than its output go on when that is lost.
func (o outside) goOnWithout() {
	if out, ok := o.stdout.(*output); ok {
		out.goOn()
	}
}

// visible is a message as it can be shown on a terminal. Messages quote arguments and files, which
// could hold anything: what is no printable character is written as Go would.
func visible(message string) string {
	var b strings.Builder
	for at := 0; at < len(message); {
		r, size := utf8.DecodeRuneInString(message[at:])
		whole := message[at : at+size]
		switch at += size; {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1, !strconv.IsPrint(r):
			quoted := strconv.Quote(whole)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
