package k8s

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// What kustomize would do and this does not is refused, not passed over.
func TestUnknownRulesAreRefused(t *testing.T) {
	const object = "kind: Service\nmetadata: {name: a, labels: {x: y}}\nspec: {ports: [{port: 1}], list: [1]}\n"
	for _, test := range []struct{ kustomization, want string }{
		{"nameSuffix: -a", "nameSuffix"},
		{"resources: [none.yaml]", "none.yaml"},
		{"resources: [none]", "none"},
		{"components: [none]", "none"},
		{"configMapGenerator: [{name: a, files: [o.yaml]}]", "disableNameSuffixHash"},
		{"generatorOptions: {disableNameSuffixHash: true}\nconfigMapGenerator: [{name: a, files: [none]}]", "none"},
		{"resources: [o.yaml]\npatches: [{path: none}]", "none"},
		{"resources: [o.yaml]\npatches: [{patch: '{kind: Service, metadata: {name: b}}'}]", "no Service b"},
		{"resources: [o.yaml]\npatches: [{patch: '[{\"op\": \"remove\", \"path\": \"/spec\"}]', target: {kind: Service}}]", "only the operation add"},
		{"resources: [o.yaml]\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/spec/none/-\", \"value\": 1}]', target: {kind: Service}}]", "no such list"},
		{"resources: [o.yaml]\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/none/a\", \"value\": 1}]', target: {kind: Service}}]", "no such map"},
		{"resources: [o.yaml]\npatches: [{patch: '{kind: Service, metadata: {name: a}, spec: {ports: [{port: 1, $patch: replace}]}}'}]", "replace"},
		{"resources: [o.yaml]\npatches: [{patch: '{kind: Service, metadata: {name: a}, spec: {$patch: merge}}'}]", "merge"},
		{"resources: [o.yaml]\npatches: [{patch: '{$patch: delete, kind: Service, metadata: {name: a}}', target: {kind: Service}}]", "delete"},
		{"resources: [o.yaml]\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/a\", \"value\": 1}]', target: {kind: '('}}]", "missing closing"},
	} {
		files := fstest.MapFS{"d/o.yaml": {Data: []byte(object)}, "d/kustomization.yaml": {Data: []byte(test.kustomization)}}
		k, err := readKustomization(files, "d")
		if err == nil {
			_, err = build(files, "d", k)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v does not name %s", test.kustomization, err, test.want)
		}
	}
}

// A null deletes, a list without keys is replaced, one with keys is merged.
func TestMerging(t *testing.T) {
	target := map[string]any{"a": 1, "args": []any{"x", "y"}, "env": []any{map[string]any{"name": "A", "value": "1"}, map[string]any{"name": "B", "value": "2"}}}
	patch := map[string]any{"a": nil, "args": []any{"z"}, "env": []any{map[string]any{"name": "B", "value": "3"}, map[string]any{"name": "A", "$patch": "delete"}, map[string]any{"name": "C"}}, "new": map[string]any{"k": []any{map[string]any{"v": 1}}}}
	if err := merge(target, patch); err != nil {
		t.Fatal(err)
	}
	want := `map[args:[z] env:[map[name:B value:3] map[name:C]] new:map[k:[map[v:1]]]]`
	if got := fmt.Sprint(target); got != want {
		t.Errorf("merged to %s, want %s", got, want)
	}
	patch["new"].(map[string]any)["k"].([]any)[0].(map[string]any)["v"] = 2
	if got := fmt.Sprint(target); got != want {
		t.Errorf("the patch is part of the target: %s", got)
	}
}
