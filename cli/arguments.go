package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// oneArgument checks that a command has the one argument that its usage line names first.
func oneArgument(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		_, usage, _ := strings.Cut(c.Use, " ")
		what, _, _ := strings.Cut(usage, " ")
		return badInput(fmt.Errorf("'%s' needs %s: %s", c.CommandPath(), what, forExample(c)))
	}
	return atMostOneArgument(c, args)
}

// atMostOneArgument checks that a command has no argument, or one that is not empty.
func atMostOneArgument(c *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return badInput(fmt.Errorf("'%s' takes one argument, not %q too: %s", c.CommandPath(), args[1], forExample(c)))
	case len(args) == 1 && args[0] == "":
		return badInput(fmt.Errorf("the argument of '%s' is empty: %s", c.CommandPath(), forExample(c)))
	}
	return nil
}

// noArgument checks that a command has flags alone.
func noArgument(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return badInput(fmt.Errorf("'%s' takes flags alone, not %q: %s", c.CommandPath(), args[0], forExample(c)))
}

// forExample is the first example of a command's help, without what explains it.
func forExample(c *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	line, _, _ = strings.Cut(line, "   ")
	return "for example: " + line
}

// flagError is the error of a flag without the name of the function that could not read its number.
func flagError(_ *cobra.Command, err error) error {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err
	}
	why := "it is no number of its kind"
	if errors.Is(number.Err, strconv.ErrRange) {
		why = "the number is too large"
		if strings.HasPrefix(number.Num, "-") {
			why = "the number is too small"
		}
	}
	return errors.New(strings.ReplaceAll(err.Error(), number.Error(), why))
}
