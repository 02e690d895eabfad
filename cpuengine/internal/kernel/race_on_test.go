//go:build race

package kernel

const underRace = true
