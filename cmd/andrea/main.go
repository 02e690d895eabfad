// Command andrea trains small decoder-only language models of the ANDREA family and
// looks after the runs: see 'andrea --help'.
package main

import (
	"os"

	"andrea/cli"
)

func main() { os.Exit(cli.Main()) }
