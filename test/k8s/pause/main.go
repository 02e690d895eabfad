// Command pause waits to be told to end: it holds the namespaces of a pod on the nodes of the tests, which reach no registry
// to pull the usual program for that from.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
}
