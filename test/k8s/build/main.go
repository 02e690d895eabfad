// Command build builds the programs of Kubernetes that the tests run, once for each version of them: those of a control
// plane, or with the argument "cluster" those of nodes as well, for which it installs some Debian packages:
//
//	cd test/k8s && go run ./build cluster && go test ./...
package main

import (
	"fmt"
	"os"
	"slices"

	"andrea/test/k8s/cluster"
)

func main() {
	if err := build(slices.Contains(os.Args[1:], "cluster")); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(nodes bool) error {
	tell := func(what string) { fmt.Println(what) }
	programs := cluster.ControlPrograms
	if nodes {
		programs = slices.Concat(programs, cluster.ClusterPrograms)
		if err := cluster.InstallPackages(tell); err != nil {
			return err
		}
	}
	tools, err := cluster.FindTools("tools")
	if err != nil {
		return err
	}
	return tools.Build(programs, tell)
}
