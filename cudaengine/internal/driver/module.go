//go:build cuda && cgo && linux

package driver

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// defaultShared is how much dynamic shared memory every kernel may have, in bytes.
const defaultShared = 48 << 10

// maxParameters is how many parameters a kernel may have.
const maxParameters = 32

// launchSlots is where the parameters of a launch lie: cu reads 8 bytes for each, whatever its type.
type launchSlots struct {
	values   [maxParameters]Slot
	pointers [maxParameters]unsafe.Pointer
}

// Module is an image of kernels, compiled for the device.
type Module struct {
	device *Device
	handle cu.Module
}

// Load compiles an image (PTX text or a cubin); the driver may keep the result on disk.
func (d *Device) Load(image string) (*Module, error) {
	handle, err := cu.LoadData(image)
	if err != nil {
		return nil, fmt.Errorf("loading the kernels: %w", check("cuModuleLoadData", err))
	}
	d.own(func() error { return check("cuModuleUnload", handle.Unload()) })
	return &Module{d, handle}, nil
}

// Kernel is a function that the device runs.
type Kernel struct {
	device     *Device
	name       string
	parameters int
	handle     cu.Function
}

// Kernel returns a kernel of the module which takes that many parameters, and whose launches ask for at most shared
// bytes of dynamic shared memory.
func (m *Module) Kernel(name string, parameters, shared int) (*Kernel, error) {
	if parameters > maxParameters {
		return nil, fmt.Errorf("finding kernel %s: it has %d parameters: at most %d are supported", name, parameters, maxParameters)
	}
	handle, err := m.handle.Function(name)
	if err != nil {
		return nil, fmt.Errorf("finding kernel %s: %w", name, check("cuModuleGetFunction", err))
	}
	if shared > defaultShared {
		if err := allowShared(handle, shared); err != nil {
			return nil, fmt.Errorf("giving kernel %s %d bytes of shared memory, of which a block may have %d: %w", name, shared, m.device.properties.Shared, err)
		}
	}
	return &Kernel{m.device, name, parameters, handle}, nil
}

// Geometry is the shape of a launch.
type Geometry struct {
	X, Y, Z int // blocks
	Threads int // of a block
	Shared  int // dynamic shared memory of a block, in bytes
}

// Launch queues a kernel with its parameters.
func (k *Kernel) Launch(s *Stream, g Geometry, slots ...Slot) error {
	if len(slots) != k.parameters {
		return fmt.Errorf("launching kernel %s: %d parameters given: it takes %d", k.name, len(slots), k.parameters)
	}
	l := &k.device.slots
	for i, slot := range slots {
		l.values[i] = slot
		l.pointers[i] = unsafe.Pointer(&l.values[i])
	}
	err := k.handle.Launch(g.X, g.Y, g.Z, g.Threads, 1, 1, g.Shared, s.handle, l.pointers[:len(slots)])
	if err != nil {
		return fmt.Errorf("launching kernel %s as %+v: %w", k.name, g, check("cuLaunchKernel", err))
	}
	return nil
}
