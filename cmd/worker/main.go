// Command worker is 'andrea worker': it computes what the coordinator of a run leases
// to it. See 'worker --help'.
package main

import (
	"os"

	"andrea/cli"
)

func main() { os.Exit(cli.Main("worker")) }
