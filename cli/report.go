package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
)

// group is a command that only holds others. Cobra alone would answer a misspelt one
// with help and success.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return badInput(fmt.Errorf("unknown command %q for %q: '%s --help' lists them", args[0], c.CommandPath(), c.CommandPath()))
	}
	c.AddCommand(commands...)
	return c
}

// report writes the result of a command to standard output: a text for people, or a
// value as one line of JSON. Texts quote files, which could hold anything, so control
// characters are shown as U+FFFD.
func (o outside) report(asJSON bool, value any, text string) error {
	var err error
	if asJSON {
		e := json.NewEncoder(o.stdout)
		e.SetEscapeHTML(false)
		err = e.Encode(value)
	} else {
		s := textStream{out: o.stdout, safe: true}
		err = errors.Join(s.write([]byte(text)), s.flush())
	}
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("writing the result: %w", err)}
	}
	return nil
}

// interrupted replaces the error of work that a signal has ended; hint says in what
// state it leaves things. All other errors stay as they are.
func interrupted(g *guard, err error, hint string) error {
	code := g.code()
	if err == nil || code == exitFailed {
		return err
	}
	return exitError{code, fmt.Errorf("interrupted: %s", hint)}
}

// inputOrDisk gives an error its exit code: a full disk is no fault of the input.
func inputOrDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return exitError{exitFailed, err}
	}
	return badInput(err)
}

// count writes a number with separators: 12,345.
func count[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
