package k8s

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kustomization is a kustomization.yaml. A field that is not here is refused.
type kustomization struct {
	APIVersion string          `yaml:"apiVersion"`
	Kind       string          `yaml:"kind"`
	Namespace  string          `yaml:"namespace"`
	NamePrefix string          `yaml:"namePrefix"`
	Labels     []labels        `yaml:"labels"`
	Resources  []string        `yaml:"resources"` // files, or folders with a kustomization
	Components []string        `yaml:"components"`
	ConfigMaps []configMap     `yaml:"configMapGenerator"`
	Options    generateOptions `yaml:"generatorOptions"`
	Images     []image         `yaml:"images"`
	Patches    []patch         `yaml:"patches"`
}

type labels struct {
	Pairs            map[string]string `yaml:"pairs"`
	IncludeSelectors bool              `yaml:"includeSelectors"`
}

type configMap struct {
	Name  string   `yaml:"name"`
	Files []string `yaml:"files"`
}

type generateOptions struct {
	DisableNameSuffixHash bool `yaml:"disableNameSuffixHash"`
	Immutable             bool `yaml:"immutable"`
}

type image struct {
	Name    string `yaml:"name"`
	NewName string `yaml:"newName"`
	NewTag  string `yaml:"newTag"`
}

// patch is strategic merge patches, or a list of JSON patch operations: in a file, or here.
type patch struct {
	Path   string `yaml:"path"`
	Inline string `yaml:"patch"`
	Target target `yaml:"target"`
}

// target says which objects a patch changes; without one each document of the patch names its own.
type target struct {
	Kind          string `yaml:"kind"` // a regular expression
	LabelSelector string `yaml:"labelSelector"`
}

// readKustomization reads the kustomization of a folder.
func readKustomization(files fs.FS, dir string) (kustomization, error) {
	var k kustomization
	data, err := fs.ReadFile(files, path.Join(dir, "kustomization.yaml"))
	if err == nil {
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		decoder.KnownFields(true)
		err = decoder.Decode(&k)
	}
	if err == nil && len(k.ConfigMaps) > 0 && !k.Options.DisableNameSuffixHash {
		err = fmt.Errorf("generated names with a hash are not supported: set disableNameSuffixHash")
	}
	if err != nil {
		return k, fmt.Errorf("reading the kustomization of %s: %w", dir, err)
	}
	return k, nil
}

// build returns the objects of a kustomization.
func build(files fs.FS, dir string, k kustomization) ([]Object, error) {
	var objects []Object
	for _, name := range k.Resources {
		more, err := resource(files, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	for _, name := range k.Components {
		var err error
		if objects, err = addComponent(files, path.Join(dir, name), objects); err != nil {
			return nil, err
		}
	}
	return k.finish(files, dir, objects)
}

// resource reads a file of objects, or builds a folder.
func resource(files fs.FS, name string) ([]Object, error) {
	if !strings.HasSuffix(name, ".yaml") {
		k, err := readKustomization(files, name)
		if err != nil {
			return nil, err
		}
		return build(files, name, k)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	objects, err := decodeObjects(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return objects, nil
}

// addComponent applies a component to the objects that there are.
func addComponent(files fs.FS, dir string, objects []Object) ([]Object, error) {
	k, err := readKustomization(files, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range k.Resources {
		more, err := resource(files, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return k.finish(files, dir, objects)
}

// finish generates and transforms.
func (k kustomization) finish(files fs.FS, dir string, objects []Object) ([]Object, error) {
	for _, c := range k.ConfigMaps {
		o, err := c.generate(files, dir, k.Options)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	for _, p := range k.Patches {
		var err error
		if objects, err = p.apply(files, dir, objects); err != nil {
			return nil, fmt.Errorf("applying the patch %s: %w", path.Join(dir, p.Path), err)
		}
	}
	setNamespace(objects, k.Namespace)
	addPrefix(objects, k.NamePrefix)
	for _, l := range k.Labels {
		addLabels(objects, l.Pairs, l.IncludeSelectors)
	}
	for _, i := range k.Images {
		i.replace(objects)
	}
	return objects, nil
}

func (c configMap) generate(files fs.FS, dir string, o generateOptions) (Object, error) {
	data := map[string]any{}
	for _, name := range c.Files {
		content, err := fs.ReadFile(files, path.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("generating the ConfigMap %s: %w", c.Name, err)
		}
		data[path.Base(name)] = string(content)
	}
	object := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": c.Name}, "data": data}
	if o.Immutable {
		object["immutable"] = true
	}
	return object, nil
}

// apply returns the objects after the patch.
func (p patch) apply(files fs.FS, dir string, objects []Object) ([]Object, error) {
	data := []byte(p.Inline)
	if p.Inline == "" {
		var err error
		if data, err = fs.ReadFile(files, path.Join(dir, p.Path)); err != nil {
			return nil, err
		}
	}
	var operations []operation
	if yaml.Unmarshal(data, &operations) == nil {
		return objects, p.eachTarget(objects, func(o Object) error { return applyOperations(o, operations) })
	}
	patches, err := decodeObjects(data)
	if err != nil {
		return nil, err
	}
	for _, one := range patches {
		if objects, err = p.mergeInto(objects, one); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// mergeInto applies one strategic merge patch.
func (p patch) mergeInto(objects []Object, one Object) ([]Object, error) {
	if p.Target != (target{}) {
		body := Object(clone(map[string]any(one)).(map[string]any))
		delete(body, "apiVersion")
		delete(body, "kind")
		delete(body, "metadata")
		return objects, p.eachTarget(objects, func(o Object) error { return merge(o, body) })
	}
	at := slices.IndexFunc(objects, func(o Object) bool { return o.Kind() == one.Kind() && o.Name() == one.Name() })
	switch {
	case at < 0:
		return nil, fmt.Errorf("there is no %s %s", one.Kind(), one.Name())
	case one[directive] == "delete":
		return slices.Delete(objects, at, at+1), nil
	}
	return objects, merge(objects[at], one)
}

// eachTarget calls f for the objects that the patch is for, if there are any.
func (p patch) eachTarget(objects []Object, f func(Object) error) error {
	kind, err := regexp.Compile("^(?:" + p.Target.Kind + ")$")
	if err != nil {
		return err
	}
	key, value, _ := strings.Cut(p.Target.LabelSelector, "=")
	for _, o := range objects {
		if !kind.MatchString(o.Kind()) || key != "" && text(o.find("metadata", "labels", key)) != value {
			continue
		}
		if err := f(o); err != nil {
			return fmt.Errorf("%s %s: %w", o.Kind(), o.Name(), err)
		}
	}
	return nil
}
