package image

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// User is who the program runs as: a number, so that Kubernetes can tell that it is not root.
const User = "65532:65532"

// Platform is an image for one kind of processor.
type Platform struct {
	Architecture string // as Go names it
	Files        []File // of its only layer
	Env          []string
}

// Image is what runs one program on several platforms.
type Image struct {
	Entrypoint []string
	Labels     map[string]string
	Reference  string // NAME:TAG by which tools import it
	Platforms  []Platform
}

// descriptor points at a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"` // bytes
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	platform
	Config struct {
		User       string            `json:"User"`
		Env        []string          `json:"Env"`
		Entrypoint []string          `json:"Entrypoint"`
		WorkingDir string            `json:"WorkingDir"`
		Labels     map[string]string `json:"Labels,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Layout is an OCI image layout: the contents of its files by their paths.
type Layout struct {
	Files  map[string][]byte
	Digest string         // of the image, for all its platforms
	Sizes  map[string]int // of each platform's layer, in bytes, by architecture
}

// Build lays an image out.
func Build(i Image) (Layout, error) {
	l := Layout{Files: map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}, Sizes: map[string]int{}}
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, p := range i.Platforms {
		one, err := l.addPlatform(i, p)
		if err != nil {
			return l, fmt.Errorf("making the image for %s: %w", p.Architecture, err)
		}
		all.Manifests = append(all.Manifests, one)
	}
	whole, err := l.addJSON(typeIndex, all)
	if err != nil {
		return l, err
	}
	l.Digest = whole.Digest
	_, tag, _ := strings.Cut(path.Base(i.Reference), ":")
	whole.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": i.Reference}
	l.Files["index.json"], err = json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{whole}})
	return l, err
}

func (l *Layout) addPlatform(i Image, p Platform) (descriptor, error) {
	packed, diffID, err := layer(p.Files)
	if err != nil {
		return descriptor{}, err
	}
	l.Sizes[p.Architecture] = len(packed)
	c := config{platform: platform{Architecture: p.Architecture, OS: "linux"}}
	c.Config.User, c.Config.Env, c.Config.Entrypoint, c.Config.WorkingDir, c.Config.Labels = User, p.Env, i.Entrypoint, "/", i.Labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{diffID}
	about, err := l.addJSON(typeConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Config: about, Layers: []descriptor{l.add(typeLayer, packed)}}
	d, err := l.addJSON(typeManifest, m)
	d.Platform = &c.platform
	return d, err
}

func (l *Layout) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, data), nil
}

// add stores a blob under its digest.
func (l *Layout) add(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	l.Files["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")] = data
	return d
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
