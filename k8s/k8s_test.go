package k8s

import (
	"fmt"
	"os/exec"
	"reflect"
	"testing"
)

// objectsOf returns the objects by kind and name.
func byName(objects []Object) map[string]Object {
	all := map[string]Object{}
	for _, o := range objects {
		all[o.Kind()+" "+o.Name()] = o
	}
	return all
}

// What is rendered here is what kustomize renders, for every overlay.
func TestRenderingEqualsKustomize(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed: what kustomize renders cannot be compared")
	}
	for _, overlay := range Overlays() {
		out, err := exec.Command(kubectl, "kustomize", "overlays/"+overlay).Output()
		if err != nil {
			t.Fatalf("%s: %v", overlay, err)
		}
		want, err := decodeObjects(out)
		if err != nil {
			t.Fatal(err)
		}
		k, err := readKustomization(manifests, "overlays/"+overlay)
		if err != nil {
			t.Fatal(err)
		}
		built, err := build(manifests, "overlays/"+overlay, k)
		if err != nil {
			t.Fatal(err)
		}
		got := applied(built)
		for name, object := range byName(want) {
			if other, found := byName(got)[name]; !found || !reflect.DeepEqual(plain(object), plain(other)) {
				t.Errorf("%s: %s differs: kustomize\n%v\nhere\n%v", overlay, name, object, other)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, want %d", overlay, len(got), len(want))
		}
	}
}

// plain turns all numbers into text: 1 and "1" differ, 1 and 1.0 do not.
func plain(v any) any {
	switch v := v.(type) {
	case Object:
		return plain(map[string]any(v))
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			m[key] = plain(value)
		}
		return m
	case []any:
		var list []any
		for _, value := range v {
			list = append(list, plain(value))
		}
		return list
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}
