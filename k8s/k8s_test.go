package k8s

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// byName returns the objects by kind and name.
func byName(objects []Object) map[string]Object {
	all := map[string]Object{}
	for _, o := range objects {
		all[o.Kind()+" "+o.Name()] = o
	}
	return all
}

// What is rendered here is what kustomize renders, for every overlay, and with every component.
func TestRenderingEqualsKustomize(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed: what kustomize renders cannot be compared")
	}
	tree := t.TempDir()
	if err := os.CopyFS(tree, manifests); err != nil {
		t.Fatal(err)
	}
	compare := func(overlay string) {
		t.Helper()
		out, err := exec.Command(kubectl, "kustomize", filepath.Join(tree, "overlays", overlay)).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", overlay, err, out)
		}
		want, err := decodeObjects(out)
		if err != nil {
			t.Fatal(err)
		}
		sameObjects(t, overlay, rendered(t, tree, overlay), want)
	}
	for _, overlay := range Overlays() {
		compare(overlay)
	}
	for _, component := range Components() {
		withComponent(t, filepath.Join(tree, "overlays", "12m", "kustomization.yaml"), component)
		compare("12m")
	}
}

// rendered builds an overlay of a tree.
func rendered(t *testing.T, tree, overlay string) []Object {
	t.Helper()
	files := os.DirFS(tree)
	k, err := readKustomization(files, "overlays/"+overlay)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := build(files, "overlays/"+overlay, k)
	if err != nil {
		t.Fatal(err)
	}
	return applied(objects)
}

// withComponent gives the 12m overlay one component.
func withComponent(t *testing.T, file, component string) {
	t.Helper()
	original, err := fs.ReadFile(manifests, "overlays/12m/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(original) + "components: [../../components/" + component + "]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sameObjects(t *testing.T, of string, got, want []Object) {
	t.Helper()
	for name, object := range byName(want) {
		if other, found := byName(got)[name]; !found || !reflect.DeepEqual(plain(object), plain(other)) {
			t.Errorf("%s: %s differs: kustomize\n%v\nhere\n%v", of, name, object, other)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d objects, want %d", of, len(got), len(want))
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
