// Command coordinator is 'andrea coordinator': it reads the dataset of a run, decides
// its steps, and keeps its journal and checkpoints. See 'coordinator --help'.
package main

import (
	"os"

	"andrea/cli"
)

func main() { os.Exit(cli.Main("coordinator")) }
