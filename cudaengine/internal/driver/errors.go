//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
)

// Error is a failed call of the CUDA driver.
type Error struct {
	Call string // the driver's function
	Code int    // CUresult
}

// codes says what the codes mean that people meet, and what to do.
var codes = map[int]string{
	1:   "invalid value: this is a fault of the program",
	2:   "out of memory: end what else runs on the device, or take a smaller microbatch or model",
	3:   "not initialized: open a device first",
	4:   "the driver is shutting down",
	46:  "the device is unavailable: it is in a mode that admits no further process",
	100: "no CUDA device: check that nvidia-smi lists one and that the container may see it",
	101: "no such device: count them with nvidia-smi, the first is 0",
	200: "the image of the kernels is invalid: this is a fault of the build",
	201: "no context on this thread: this is a fault of the program",
	209: "the kernels were not compiled for this device: compute capability 8.0 or newer is needed",
	214: "uncorrectable memory error: the device needs a reset",
	218: "the kernels' PTX is invalid: this is a fault of the build",
	221: "the driver's PTX compiler is missing: install libnvidia-ptxjitcompiler with the driver",
	222: "the kernels' PTX is newer than this driver: install a newer driver",
	400: "invalid handle: this is a fault of the program",
	500: "not found: this driver is too old, or the kernel is not in its image",
	700: "a kernel accessed memory that is not its own: this is a fault of the program",
	701: "a kernel needs more registers or shared memory than the device has",
	702: "a kernel took too long: the device also drives a display",
	710: "a kernel's assertion failed",
	715: "a kernel reached an illegal instruction",
	716: "a kernel used a misaligned address: this is a fault of the program",
	719: "a kernel failed",
	802: "the system is not ready: its fabric manager does not run",
	803: "the driver's library and kernel module have different versions: restart the machine",
	999: "unknown error: see the system's log",
}

// Error says which call failed and why.
func (e *Error) Error() string {
	if text, ok := codes[e.Code]; ok {
		return fmt.Sprintf("%s: CUDA error %d: %s", e.Call, e.Code, text)
	}
	return fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
}

// sticky reports whether the device answers nothing else from then on, until its context is made anew.
func (e *Error) sticky() bool {
	switch e.Code {
	case 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999:
		return true
	}
	return false
}

// Sticky reports whether an error comes from one after which the device answers nothing else.
func Sticky(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.sticky()
}
