package k8s

import (
	"fmt"
	"strings"
)

// operation is one of a JSON patch (RFC 6902): "add" alone, of a key of a map or to the end of a list.
type operation struct {
	Op    string `yaml:"op"`
	Path  string `yaml:"path"`
	Value any    `yaml:"value"`
}

// unescape turns the parts of a JSON pointer into keys.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func applyOperations(o Object, operations []operation) error {
	for _, op := range operations {
		if err := op.apply(o); err != nil {
			return fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	return nil
}

func (op operation) apply(o Object) error {
	parts := strings.Split(op.Path, "/")
	if op.Op != "add" || len(parts) < 2 || parts[0] != "" {
		return fmt.Errorf("only the operation add with an absolute path is known here")
	}
	for i := range parts {
		parts[i] = unescape.Replace(parts[i])
	}
	parent, last := parts[1:len(parts)-1], parts[len(parts)-1]
	if last != "-" {
		holder, isMap := o.find(parent...).(map[string]any)
		if !isMap {
			return fmt.Errorf("there is no such map")
		}
		holder[last] = clone(op.Value)
		return nil
	}
	list, isList := o.find(parent...).([]any)
	if !isList {
		return fmt.Errorf("there is no such list")
	}
	holder := o.submap(parent[:len(parent)-1]...)
	holder[parent[len(parent)-1]] = append(list[:len(list):len(list)], clone(op.Value))
	return nil
}
