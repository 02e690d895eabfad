package checkpoints

import (
	"cmp"
	"slices"
)

// Present is a checkpoint that lies in the store.
type Present struct {
	Step    int
	Damaged bool // known to be unusable; false also when nobody has looked
}

// Expired returns, oldest first, the steps whose checkpoints may be deleted after the one of step
// verified has been read back and found intact. That one stays, whatever else is there, and with it
// the keepLast-1 newest older ones that are not known to be damaged; keepLast below 1 counts as 1.
// Everything newer than verified is left alone: those wait to be replaced when training reaches them.
func Expired(present []Present, verified, keepLast int) []int {
	older := slices.DeleteFunc(slices.Clone(present), func(p Present) bool { return p.Step >= verified })
	slices.SortFunc(older, func(a, b Present) int { return cmp.Compare(b.Step, a.Step) })
	kept := 1 // the verified one
	var expired []int
	for _, p := range older {
		if kept >= keepLast {
			expired = append(expired, p.Step)
		} else if !p.Damaged {
			kept++
		}
	}
	slices.Reverse(expired)
	return expired
}
