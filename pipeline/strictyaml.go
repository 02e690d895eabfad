package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// decodeStrict sets the keys of *v, a struct, that the YAML document gives and leaves
// the others. Unknown and repeated keys, wrong types and a second document are errors
// that name their lines; then *v is undefined.
func decodeStrict(data []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	switch err := d.Decode(v); {
	case errors.Is(err, io.EOF):
		return nil // an empty document changes nothing
	case err != nil:
		return plainYAMLError(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is a second document after ---: give one")
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return plainYAMLError(err)
	}
	return errors.Join(laxScalars(&document, reflect.TypeOf(v), "")...)
}

// laxScalars finds what the YAML library lets pass into a value of type t: it cuts
// 2.5 down to an integer, rounds integers that are too large, reads 010 as 8 and 1_000 as
// 1000, and leaves a key without a value as it was; and texts with control characters, which it does not all write so that
// they read back. The node has been decoded into t, so aliases have no cycles.
func laxScalars(n *yaml.Node, t reflect.Type, key string) (faults []error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.DocumentNode:
		return laxScalars(n.Content[0], t, key)
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i].Value, n.Content[i+1]
			if field, ok := fieldOf(t, name); ok {
				faults = append(faults, laxScalars(value, field, name)...)
			} else if name == "<<" {
				faults = append(faults, laxScalars(value, t, key)...)
			}
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Struct: // of merged mappings
		for _, item := range n.Content {
			faults = append(faults, laxScalars(item, t, key)...)
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			faults = append(faults, laxScalars(item, t.Elem(), fmt.Sprintf("%s[%d]", key, i))...)
		}
	case n.ShortTag() == "!!null" && t.Kind() != reflect.Struct:
		faults = append(faults, fmt.Errorf("line %d: %s has no value: give one, or leave the key out", n.Line, key))
	case n.ShortTag() == "!!float" && (reflect.Zero(t).CanInt() || reflect.Zero(t).CanUint()):
		faults = append(faults, fmt.Errorf("line %d: %s is %.40s: must be a whole number of at most 64 bits, written in digits", n.Line, key, n.Value))
	case isNumber(t) && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") && !plainNumber.MatchString(n.Value):
		faults = append(faults, fmt.Errorf("line %d: %s is %.40s: write a number in plain decimal digits, such as 10 or 2.5e-4: without zeros in front, underscores, 0x, 0o or 0b", n.Line, key, n.Value))
	case t.Kind() == reflect.String:
		if text := textOf(n); strings.ContainsFunc(text, unicode.IsControl) {
			faults = append(faults, fmt.Errorf("line %d: %s is %.40q: it contains a control character, such as a tab or the end of a line: leave it out", n.Line, key, text))
		}
	}
	return faults
}

// plainNumber is what means the same number to everybody, or is none: the values are checked elsewhere.
var plainNumber = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)

// isNumber reports whether values of type t are numbers.
func isNumber(t reflect.Type) bool {
	zero := reflect.Zero(t)
	return zero.CanInt() || zero.CanUint() || zero.CanFloat()
}

// textOf is the text that a scalar gives: not always what is written, which may be base64.
func textOf(n *yaml.Node) (text string) {
	_ = n.Decode(&text) // it has been decoded before
	return text
}

// fieldOf returns the type of a struct's field by its key.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == key {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

var (
	unknownKey = regexp.MustCompile(`(?s)^(line \d+): field (.*) not found in type \S+$`)
	wrongType  = regexp.MustCompile("(?s)^(line \\d+): cannot unmarshal !!(\\w+)(?: `(.*)`)? into (\\S+)$")
)

// plainTypes says what a value should be, by its Go type.
var plainTypes = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative",
	"float32": "a number", "float64": "a number", "bool": "true or false", "string": "a text", "[]float64": "a list of numbers",
}

// plainYAMLError says what the YAML library found in this project's words.
func plainYAMLError(err error) error {
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var errs []error
	for _, line := range typeError.Errors {
		if m := unknownKey.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf("%s: unknown key %q", m[1], m[2])
		} else if m := wrongType.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf("%s: %s is not %s", m[1], given(m[2], m[3]), expected(m[4]))
		}
		errs = append(errs, errors.New(line))
	}
	return errors.Join(errs...)
}

// given describes a value that has the wrong type.
func given(tag, value string) string {
	switch tag {
	case "seq":
		return "a list"
	case "map":
		return "a section"
	}
	return fmt.Sprintf("%.40q", value)
}

func expected(goType string) string {
	if plain, ok := plainTypes[goType]; ok {
		return plain
	}
	return "a section with keys of its own"
}
