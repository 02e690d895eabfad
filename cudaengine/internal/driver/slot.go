//go:build cuda && cgo && linux

package driver

import "math"

// Int is the slot of a parameter of type int, which has 32 bits.
func Int(n int) Slot { return Slot(uint32(int32(n))) }

// Float is the slot of a parameter of type float.
func Float(x float32) Slot { return Slot(math.Float32bits(x)) }
