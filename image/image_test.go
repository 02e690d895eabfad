package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
)

func sample() Image {
	return Image{
		Entrypoint: []string{"/andrea"}, Reference: "registry.example.com:5000/andrea:v1", Labels: map[string]string{"a": "b", "c": "d"},
		Platforms: []Platform{
			{Architecture: "amd64", Env: []string{"A=1"}, Files: []File{{Path: "/andrea", Mode: 0o755, Data: []byte("program")}, {Path: "/etc/passwd", Mode: 0o644, Data: []byte("x")}, {Path: "/tmp", Mode: 0o1777}}},
			{Architecture: "arm64", Files: []File{{Path: "/andrea", Mode: 0o755, Data: []byte("another")}}},
		},
	}
}

// Everything that the layout's index leads to is there, under the digest of its bytes, and says who runs what.
func TestLayoutHoldsTogether(t *testing.T) {
	l, err := Build(sample())
	if err != nil {
		t.Fatal(err)
	}
	blob := func(d descriptor) []byte {
		data, found := l.Files["blobs/sha256/"+d.Digest[len("sha256:"):]]
		if !found || len(data) != d.Size || digest(data) != d.Digest {
			t.Fatalf("the blob %+v is missing or another one", d)
		}
		return data
	}
	decode := func(data []byte, v any) {
		if err := json.Unmarshal(data, v); err != nil {
			t.Fatal(err)
		}
	}
	var top, all index
	decode(l.Files["index.json"], &top)
	if top.Manifests[0].Digest != l.Digest || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Errorf("the index is %+v", top)
	}
	decode(blob(top.Manifests[0]), &all)
	if len(all.Manifests) != 2 || all.Manifests[1].Platform.Architecture != "arm64" {
		t.Fatalf("the platforms are %+v", all.Manifests)
	}
	var m manifest
	decode(blob(all.Manifests[0]), &m)
	var c config
	decode(blob(m.Config), &c)
	if c.Config.User != User || !slices.Equal(c.Config.Entrypoint, []string{"/andrea"}) || c.OS != "linux" {
		t.Errorf("the configuration is %+v", c)
	}
	checkLayer(t, blob(m.Layers[0]), c.RootFS.DiffIDs[0])
}

func checkLayer(t *testing.T, packed []byte, diffID string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil || digest(raw) != diffID {
		t.Fatalf("the layer has another diff_id than %s: %v", diffID, err)
	}
	var found []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %o %d", h.Name, h.Mode, h.Size))
		if h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s has an owner or a time: %+v", h.Name, h)
		}
	}
	if want := []string{"andrea 755 7", "etc/ 755 0", "etc/passwd 644 1", "tmp/ 1777 0"}; !slices.Equal(found, want) {
		t.Errorf("the layer holds %q, want %q", found, want)
	}
}

// The same files give the same digest, in whatever order they come; one bit gives another.
func TestDigestsAreReproducible(t *testing.T) {
	first, err := Build(sample())
	if err != nil {
		t.Fatal(err)
	}
	again := sample()
	slices.Reverse(again.Platforms[0].Files)
	second, err := Build(again)
	if err != nil || first.Digest != second.Digest {
		t.Errorf("two builds differ: %v", err)
	}
	again.Platforms[1].Files[0].Data[0] ^= 1
	third, err := Build(again)
	if err != nil || third.Digest == first.Digest {
		t.Errorf("another program has the same digest: %v", err)
	}
}

// The bill of this test's own program names the modules in it.
func TestSBOMNamesModules(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := SBOM(program, "Apache-2.0", Component{"glibc", "2.36", "LGPL-2.1-or-later", "generic"})
	if err != nil {
		t.Fatal(err)
	}
	var document spdx
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Packages) < 2 || document.Packages[0].Name != "andrea" || document.Packages[1].Name != "stdlib" ||
		document.Packages[len(document.Packages)-1].Refs[0].Locator != "pkg:generic/glibc@2.36" || len(document.Relationships) != len(document.Packages) {
		t.Errorf("the bill is %s", text)
	}
	if _, err := SBOM([]byte("no program"), ""); err == nil {
		t.Error("a bill of what is no program")
	}
}
