package k8s

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Object is a Kubernetes object as maps, lists and scalars.
type Object map[string]any

// Kind is the object's kind, such as Deployment.
func (o Object) Kind() string { return text(o["kind"]) }

// Name is the object's name.
func (o Object) Name() string { return text(o.find("metadata", "name")) }

// text is a value that should be a string; empty when it is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// find follows keys through maps; nil when there is nothing.
func (o Object) find(keys ...string) any {
	var v any = map[string]any(o)
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// submap follows keys through maps, which it makes where they are missing.
func (o Object) submap(keys ...string) map[string]any {
	m := map[string]any(o)
	for _, key := range keys {
		next, isMap := m[key].(map[string]any)
		if !isMap {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	return m
}

// podSpec is the pod template's spec; nil for an object without one.
func (o Object) podSpec() map[string]any {
	m, _ := o.find("spec", "template", "spec").(map[string]any)
	return m
}

// containers are the maps of all containers of the pod template, those of the start first.
func (o Object) containers() []map[string]any {
	return slices.Concat(maps(o.podSpec()["initContainers"]), maps(o.podSpec()["containers"]))
}

// maps are the elements of a list that are maps.
func maps(list any) []map[string]any {
	var all []map[string]any
	elements, _ := list.([]any)
	for _, e := range elements {
		if m, isMap := e.(map[string]any); isMap {
			all = append(all, m)
		}
	}
	return all
}

// component is which side of a run the object belongs to.
func (o Object) component() string {
	return text(o.find("metadata", "labels", componentLabel))
}

// Labels of a run's objects.
const (
	instanceLabel  = "app.kubernetes.io/instance" // the run's name
	componentLabel = "app.kubernetes.io/component"
)

// Sides of a run.
const (
	Coordinator = "coordinator"
	Worker      = "worker"
)

// decodeObjects reads a stream of YAML documents.
func decodeObjects(data []byte) ([]Object, error) {
	var objects []Object
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var o map[string]any // not an Object: the maps inside would be such, too
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if o != nil {
			objects = append(objects, o)
		}
	}
}

// applyOrder lists kinds that others need; all other kinds come after them, and those with pods last. A pod whose volumes are not there
// when it comes to its node waits for many seconds.
var applyOrder = []string{"Namespace", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolume", "PersistentVolumeClaim"}

// rank is the place of an object when it is applied.
func (o Object) rank() int {
	if i := slices.Index(applyOrder, o.Kind()); i >= 0 {
		return i
	}
	if o.podSpec() != nil {
		return len(applyOrder) + 1
	}
	return len(applyOrder)
}

// Marshal is the objects as a stream of YAML documents, in the order in which they should be applied.
func Marshal(objects []Object) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b Object) int { return a.rank() - b.rank() })
	for _, o := range ordered {
		if err := encoder.Encode(o); err != nil {
			return nil, fmt.Errorf("writing %s %s as YAML: %w", o.Kind(), o.Name(), err)
		}
	}
	err := encoder.Close()
	return b.Bytes(), err
}
