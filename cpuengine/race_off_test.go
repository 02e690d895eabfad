//go:build !race

package cpuengine

const underRace = false
