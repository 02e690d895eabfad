// Command build builds the programs of the control plane that the tests run, once for each version of them:
//
//	cd test/k8s && go run ./build && go test ./...
package main

import (
	"fmt"
	"os"

	"andrea/test/k8s/cluster"
)

func main() {
	tools, err := cluster.FindTools("tools")
	if err == nil {
		err = tools.Build(func(what string) { fmt.Println(what) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}
