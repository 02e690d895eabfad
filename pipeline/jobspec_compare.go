package pipeline

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Differences lists the keys that two specs give different values, in the order of the spec: such as
// "optimizer.lr: 0.001 became 0.0006". It is empty for the same job.
func (s JobSpec) Differences(other JobSpec) []string {
	keys, before := flatten(s)
	otherKeys, after := flatten(other)
	for _, key := range otherKeys {
		if _, known := before[key]; !known {
			keys = append(keys, key)
		}
	}
	var differences []string
	for _, key := range keys {
		if before[key] != after[key] {
			differences = append(differences, fmt.Sprintf("%s: %s became %s", key, orAbsent(before[key]), orAbsent(after[key])))
		}
	}
	return differences
}

func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}

// flatten gives every dotted key of a spec the text of its value, and the keys in order.
func flatten(s JobSpec) (keys []string, values map[string]string) {
	values = map[string]string{}
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := prefix+n.Content[i].Value, n.Content[i+1]
			if value.Kind == yaml.MappingNode {
				walk(key+".", value)
				continue
			}
			keys = append(keys, key)
			values[key] = valueText(value)
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(s.Marshal(), &document); err == nil && len(document.Content) == 1 { // what Marshal wrote can be read
		walk("", document.Content[0])
	}
	return keys, values
}

// valueText is a scalar or a list on one line.
func valueText(n *yaml.Node) string {
	n.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(n)
	if err != nil {
		return n.Value
	}
	return string(bytes.TrimSpace(text))
}
