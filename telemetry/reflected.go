package telemetry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Bounds of what is shown of a value that JSON cannot hold: it may contain itself.
const (
	maxDepth  = 16
	maxValues = 4096
	cutMark   = "…"
)

// reflectedEncoder encodes values of any type as JSON.
type reflectedEncoder struct{ json *json.Encoder }

func newReflectedEncoder(w io.Writer) zapcore.ReflectedEncoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return reflectedEncoder{encoder}
}

// Encode implements zapcore.ReflectedEncoder. A value that JSON refuses (NaN inside, a channel, a
// pointer to itself) is encoded again in a form that it takes.
func (e reflectedEncoder) Encode(value any) error {
	err := e.json.Encode(value) // writes nothing when it fails
	if err == nil {
		return nil
	}
	var r readable
	return e.json.Encode(r.value(reflect.ValueOf(value), 0))
}

// readable turns values into such as JSON takes, close to what encoding/json would make of them. It
// counts what it has turned.
type readable struct{ values int }

func (r *readable) value(v reflect.Value, depth int) any {
	if r.values++; r.values > maxValues || depth > maxDepth {
		return cutMark
	}
	if encoded := encodedByItself(v); encoded != nil {
		return encoded
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint()
	case reflect.Float32:
		return number(v.Float(), float32(v.Float()))
	case reflect.Float64:
		return number(v.Float(), v.Float())
	case reflect.String:
		return v.String()
	case reflect.Interface, reflect.Pointer:
		return r.value(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return r.list(v, depth+1)
	case reflect.Map:
		return r.table(v, depth+1)
	case reflect.Struct:
		return r.fields(v, depth+1)
	default: // complex numbers; of channels and functions the type says more than the address
		if v.CanComplex() {
			return fmt.Sprint(v.Complex())
		}
		return v.Type().String()
	}
}

// number returns shown, which is x in its own type, or the name of a number that JSON lacks.
func number(x float64, shown any) any {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "+Inf"
	case math.IsInf(x, -1):
		return "-Inf"
	}
	return shown
}

// encodedByItself returns what a type's own marshaling gives, nil when it has none or fails.
func encodedByItself(v reflect.Value) any {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	value := v.Interface()
	switch value.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		if encoded, err := json.Marshal(value); err == nil {
			return json.RawMessage(encoded)
		}
	}
	return nil
}

func (r *readable) list(v reflect.Value, depth int) any {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return v.Bytes()
	}
	items := []any{}
	for i := range v.Len() {
		items = append(items, r.value(v.Index(i), depth))
		if r.values > maxValues {
			break
		}
	}
	return items
}

func (r *readable) table(v reflect.Value, depth int) any {
	if v.IsNil() {
		return nil
	}
	items := map[string]any{}
	for each := v.MapRange(); each.Next() && r.values <= maxValues; {
		items[fmt.Sprint(each.Key())] = r.value(each.Value(), depth)
	}
	return items
}

func (r *readable) fields(v reflect.Value, depth int) any {
	items := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		items[name] = r.value(v.Field(i), depth)
	}
	return items
}
