// Package image makes container images of the program without a container engine: a layer of files, a
// configuration and a manifest are a few deterministic bytes, laid out as the OCI image specification says.
// The same files give the same digest on any machine with the same Go release.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"path"
	"slices"
	"strings"
)

// File is a file or a folder of an image. It belongs to root, who does not run there.
type File struct {
	Path string // absolute
	Mode int64  // permission bits
	Data []byte // nil: a folder
}

// layer packs files and the folders above them into a compressed tar. diffID is the digest of the tar itself.
func layer(files []File) (compressed []byte, diffID string, err error) {
	var raw, packed bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, f := range withParents(files) {
		if err := w.WriteHeader(f.header()); err != nil {
			return nil, "", fmt.Errorf("packing %s: %w", f.Path, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, "", fmt.Errorf("packing %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("packing the layer: %w", err)
	}
	diffID = digest(raw.Bytes())
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	if _, err := raw.WriteTo(z); err != nil {
		return nil, "", fmt.Errorf("compressing the layer: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, "", fmt.Errorf("compressing the layer: %w", err)
	}
	return packed.Bytes(), diffID, nil
}

// header has no times and no names of users, which differ from machine to machine.
func (f File) header() *tar.Header {
	h := &tar.Header{Name: strings.TrimPrefix(path.Clean(f.Path), "/"), Mode: f.Mode, Size: int64(len(f.Data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if f.Data == nil {
		h.Name, h.Typeflag = h.Name+"/", tar.TypeDir
	}
	return h
}

// withParents adds the folders that are missing, and sorts.
func withParents(files []File) []File {
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(path.Clean(f.Path)); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if !slices.ContainsFunc(all, func(f File) bool { return path.Clean(f.Path) == dir }) {
				all = append(all, File{Path: dir, Mode: 0o755})
			}
		}
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(path.Clean(a.Path), path.Clean(b.Path)) })
	return all
}
