package crashfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns the file system found after a power cut at this moment when the disk had written
// nothing but what was synced. The receiver stays as it is; its open files do not reach the new one.
func (f *FS) Crash() *FS {
	return f.survive(func(int) int { return 0 })
}

// Kill returns the file system found after the death of the process at this moment: every completed
// operation is there, synced or not, and so is what a torn write had written. What was not synced still
// is not: a power cut of the result may lose it.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &FS{root: f.root.clone(map[*node]*node{})}
}

// CrashRandom returns a file system that may be found after a power cut: of every folder's unsynced
// changes and every file's unsynced writes a prefix survived, chosen by the seed, and the last write
// may be torn.
func (f *FS) CrashRandom(seed uint64) *FS {
	rng := rand.New(rand.NewPCG(seed, 0))
	return f.survive(func(n int) int { return rng.IntN(n + 1) })
}

// clone copies a node with all that is not synced, but no lock.
func (n *node) clone(copies map[*node]*node) *node {
	if done, ok := copies[n]; ok || n == nil {
		return done
	}
	c := &node{
		dir: n.dir, changes: slices.Clone(n.changes),
		data: bytes.Clone(n.data), syncedData: bytes.Clone(n.syncedData), writes: slices.Clone(n.writes),
	}
	copies[n] = c
	if n.dir {
		c.entries, c.synced = cloneEntries(n.entries, copies), cloneEntries(n.synced, copies)
	}
	for i := range c.changes {
		c.changes[i].node = c.changes[i].node.clone(copies)
	}
	return c
}

func cloneEntries(entries map[string]*node, copies map[*node]*node) map[string]*node {
	result := make(map[string]*node, len(entries))
	for name, n := range entries {
		result[name] = n.clone(copies)
	}
	return result
}

// survive copies the tree; keep(n) says how many of n unsynced things are kept.
func (f *FS) survive(keep func(n int) int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	copies := map[*node]*node{}
	return &FS{root: f.root.survivor(keep, copies)}
}

// survivor copies what is left of a node. A node that two folders lead to (a crash within a move
// between them) is copied once. Folders are visited in the order of their names, so that a seed
// decides the same every time.
func (n *node) survivor(keep func(n int) int, copies map[*node]*node) *node {
	if done, ok := copies[n]; ok {
		return done
	}
	if !n.dir {
		copies[n] = n.survivingFile(keep)
		return copies[n]
	}
	left := maps.Clone(n.synced)
	for _, c := range n.changes[:keep(len(n.changes))] {
		c.apply(left)
	}
	result := newDir()
	copies[n] = result
	for _, name := range sortedNames(left) {
		result.entries[name] = left[name].survivor(keep, copies)
	}
	result.sync()
	return result
}

func (n *node) survivingFile(keep func(n int) int) *node {
	data := bytes.Clone(n.syncedData)
	whole := keep(len(n.writes))
	for _, w := range n.writes[:whole] {
		data = w.apply(data)
	}
	if whole < len(n.writes) {
		torn := n.writes[whole]
		torn.data = torn.data[:keep(len(torn.data))]
		if len(torn.data) > 0 {
			data = torn.apply(data)
		}
	}
	return &node{data: data, syncedData: bytes.Clone(data)}
}
