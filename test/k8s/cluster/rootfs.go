package cluster

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is an unpacked container image.
type Image struct {
	Root       string // folder with its files
	Entrypoint []string
	Env        []string
	UID, GID   uint32
}

type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

// Unpack unpacks the image of this machine's architecture from an OCI layout.
func Unpack(layout, root string) (Image, error) {
	i := Image{Root: root}
	if err := i.unpack(layout); err != nil {
		return i, fmt.Errorf("unpacking the image %s: %w", layout, err)
	}
	return i, nil
}

func (i *Image) unpack(layout string) error {
	blob := func(digest string) string {
		return filepath.Join(layout, "blobs", strings.ReplaceAll(digest, ":", string(filepath.Separator)))
	}
	var top, all struct{ Manifests []descriptor }
	if err := readJSON(filepath.Join(layout, "index.json"), &top); err != nil {
		return err
	}
	if len(top.Manifests) != 1 {
		return fmt.Errorf("it has %d images, want 1", len(top.Manifests))
	}
	if err := readJSON(blob(top.Manifests[0].Digest), &all); err != nil {
		return err
	}
	for _, m := range all.Manifests {
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		var one struct {
			Config descriptor
			Layers []descriptor
		}
		if err := readJSON(blob(m.Digest), &one); err != nil {
			return err
		}
		if err := i.configure(blob(one.Config.Digest)); err != nil {
			return err
		}
		return unpackLayer(blob(one.Layers[0].Digest), i.Root)
	}
	return fmt.Errorf("it has no image for %s", runtime.GOARCH)
}

// configure reads who runs what.
func (i *Image) configure(path string) error {
	var c struct {
		Config struct {
			User            string
			Entrypoint, Env []string
		}
	}
	if err := readJSON(path, &c); err != nil {
		return err
	}
	i.Entrypoint, i.Env = c.Config.Entrypoint, c.Config.Env
	_, err := fmt.Sscanf(c.Config.User, "%d:%d", &i.UID, &i.GID)
	return err
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// unpackLayer unpacks a layer that is our own, so its names are not doubted.
func unpackLayer(path, root string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, data, 0o644)
			}
		}
		if err := errors.Join(err, os.Chmod(name, h.FileInfo().Mode())); err != nil {
			return err
		}
	}
}
