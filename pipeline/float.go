package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Float is a float64 that JSON can carry whatever its value: finite numbers as the
// shortest decimal that reads back to the same bits, the others as "NaN", "+Inf"
// and "-Inf".
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	switch x := float64(f); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"+Inf"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Inf"`), nil
	default:
		return json.Marshal(x)
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte(`"NaN"`)):
		*f = Float(math.NaN())
	case bytes.Equal(data, []byte(`"+Inf"`)):
		*f = Float(math.Inf(1))
	case bytes.Equal(data, []byte(`"-Inf"`)):
		*f = Float(math.Inf(-1))
	default:
		var x *float64
		if err := json.Unmarshal(data, &x); err != nil || x == nil {
			return fmt.Errorf("reading a number: %.40q is neither a number nor NaN, +Inf or -Inf", data)
		}
		*f = Float(*x)
	}
	return nil
}

// finite reports whether f is a number.
func (f Float) finite() bool {
	return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0)
}

// same reports whether both have the same bits, or neither is a number.
func (f Float) same(g Float) bool {
	return math.Float64bits(float64(f)) == math.Float64bits(float64(g)) || f != f && g != g
}
