package launch

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// availableMemory is how many bytes a new allocation may take, as far as the system
// tells: what the machine has left, within the limit of this process's control
// group. 0: not known.
func availableMemory() int64 {
	available := meminfo("MemAvailable:")
	limit, used := number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current")
	if stat, err := os.ReadFile("/sys/fs/cgroup/memory.stat"); err == nil {
		used = max(0, used-inactiveFile(string(stat)))
	}
	if limit > 0 && (available == 0 || limit-used < available) {
		return max(1, limit-used)
	}
	return available
}

// inactiveFile is how many bytes of a control group's memory are file contents that the system lets
// go of before anything else; stat is its memory.stat. 0: not known.
func inactiveFile(stat string) int64 {
	for line := range strings.Lines(stat) {
		if text, found := strings.CutPrefix(line, "inactive_file "); found {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return 0
			}
			return max(0, n)
		}
	}
	return 0
}

// meminfo is a line of /proc/meminfo in bytes.
func meminfo(key string) int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(data), key)
	if !found {
		return 0
	}
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0
	}
	kib, err := strconv.ParseInt(fields[0], 10, 53)
	if err != nil {
		return 0
	}
	return kib << 10
}

// number is the only number of a file; 0 when there is none, such as "max".
func number(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
