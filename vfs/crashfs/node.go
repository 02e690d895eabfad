package crashfs

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// node is a file or a folder: its current state, its synced state, and the changes that lie between
// them in the order in which they were made.
type node struct {
	dir bool

	// Of a folder.
	entries map[string]*node
	synced  map[string]*node
	changes []change

	// Of a file.
	data       []byte
	syncedData []byte
	writes     []write
	locked     bool // an open file holds its lock
}

// change is one change of a folder's names; remove and add together are a rename within it.
type change struct {
	remove string // "" for none
	add    string // "" for none
	node   *node  // what the added name leads to
}

// write is one change of a file's bytes.
type write struct {
	truncate bool
	offset   int
	data     []byte
}

func newDir() *node {
	return &node{dir: true, entries: map[string]*node{}, synced: map[string]*node{}}
}

func (c change) apply(entries map[string]*node) {
	if c.remove != "" {
		delete(entries, c.remove)
	}
	if c.add != "" {
		entries[c.add] = c.node
	}
}

func (w write) apply(data []byte) []byte {
	if w.truncate {
		return data[:0:0]
	}
	if gap := w.offset + len(w.data) - len(data); gap > 0 {
		data = append(data, make([]byte, gap)...)
	}
	copy(data[w.offset:], w.data)
	return data
}

func (n *node) change(c change) {
	c.apply(n.entries)
	n.changes = append(n.changes, c)
}

func (n *node) write(w write) {
	n.data = w.apply(n.data)
	n.writes = append(n.writes, w)
}

func (n *node) truncate() { n.write(write{truncate: true}) }

func (n *node) sync() {
	if n.dir {
		n.synced, n.changes = maps.Clone(n.entries), nil
		return
	}
	n.syncedData, n.writes = bytes.Clone(n.data), nil
}

func sortedNames(entries map[string]*node) []string {
	return slices.Sorted(maps.Keys(entries))
}

func (n *node) info(name string) fs.FileInfo {
	return info{name: name, size: int64(len(n.data)), dir: n.dir}
}

// info describes a node; there are no times in this file system.
type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
