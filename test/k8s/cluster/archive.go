package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// pauseImage is the image of the container that holds a pod's namespaces.
const pauseImage = "docker.io/library/andrea-pause:test"

// writePause writes an image of one program, as an archive that containerd imports.
func writePause(program, archive string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := pack(map[string][]byte{"pause": data})
	if err != nil {
		return err
	}
	about, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	index, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	whole, err := pack(map[string][]byte{"config.json": about, "layer.tar": layer, "manifest.json": index})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, whole, 0o644)
}

// pack makes a tar of files that everybody may run.
func pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeLayout writes an OCI layout as an archive that containerd imports.
func writeLayout(layout, archive string) (err error) {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	if err := w.AddFS(os.DirFS(layout)); err != nil {
		return err
	}
	return w.Close()
}
