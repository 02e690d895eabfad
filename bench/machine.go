package bench

import (
	"os"
	"runtime"
	"strings"
)

// Machine is what the numbers belong to.
type Machine struct {
	CPU     string // as the system names it; "": it does not
	System  string // operating system and architecture
	Go      string // toolchain
	Threads int
}

func thisMachine(threads int) Machine {
	cpus, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none
	return Machine{CPU: cpuName(string(cpus)), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Threads: threads}
}

// cpuName returns the processor's name in Linux's list of processors, "" if it has none.
func cpuName(list string) string {
	for line := range strings.Lines(list) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
