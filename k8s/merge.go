package k8s

import (
	"fmt"
	"slices"
)

// mergeKeys says by what elements of a list are the same one, by the list's name. All other lists are
// replaced as a whole. It is the part of Kubernetes' strategic merge that the manifests use.
var mergeKeys = map[string][]string{
	"containers":     {"name"},
	"initContainers": {"name"},
	"volumes":        {"name"},
	"env":            {"name"},
	"volumeMounts":   {"mountPath"},
	"ports":          {"containerPort", "port", "protocol"},
}

// directive is the key of a map in a patch that says what becomes of its counterpart.
const directive = "$patch"

// merge changes target as a patch says: maps are merged, null deletes, the rest replaces. The target takes
// over no part of the patch, which may be used again.
func merge(target, patch map[string]any) error {
	if d := patch[directive]; d != nil {
		return fmt.Errorf("the directive %v is not known here", d)
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			inner, isMap := target[key].(map[string]any)
			if !isMap {
				inner = map[string]any{}
				target[key] = inner
			}
			if err := merge(inner, value); err != nil {
				return err
			}
		case []any:
			list, err := mergeList(key, target[key], value)
			if err != nil {
				return err
			}
			target[key] = list
		default:
			target[key] = value
		}
	}
	return nil
}

// mergeList merges the elements of a list that has keys: those of the patch come first, as kustomize has
// it.
func mergeList(name string, target any, patch []any) ([]any, error) {
	keys, keyed := mergeKeys[name]
	if !keyed {
		return clone(patch).([]any), nil
	}
	old := maps(target)
	var merged []any
	for _, element := range maps(patch) {
		at := slices.IndexFunc(old, func(m map[string]any) bool { return sameKeys(m, element, keys) })
		result := map[string]any{}
		if at >= 0 {
			result, old = old[at], slices.Delete(slices.Clone(old), at, at+1)
		}
		if element[directive] == "delete" {
			continue
		}
		if err := merge(result, element); err != nil {
			return nil, fmt.Errorf("merging %s: %w", name, err)
		}
		merged = append(merged, result)
	}
	for _, rest := range old {
		merged = append(merged, rest)
	}
	return merged, nil
}

func sameKeys(a, b map[string]any, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return a[key] != b[key] })
}

// clone copies maps and lists.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = clone(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = clone(value)
		}
		return list
	}
	return v
}
