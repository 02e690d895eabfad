//go:build cuda && cgo && linux

package cudaengine

import (
	"errors"
	"fmt"

	"andrea/cudaengine/internal/driver"
	"andrea/model"
)

// engine computes one replica of a model on one GPU. It has one caller at a time.
type engine struct {
	config  model.Config
	options Options
	layout  model.Layout
	info    model.Info

	device  *driver.Device
	kernels kernelSet
	library *driver.Products // nil: our own kernels multiply
	mem     memory
	host    hostMemory
	compute queue // kernels
	copies  queue // what the host prepares while kernels run
	copied  *driver.Event
	passed  []*driver.Event // of the marks of a pass, see reveal
	sorter  sorter
}

var _ model.Engine = (*engine)(nil)

// Devices lists the GPUs of this machine, with their engine classes for what shall multiply: OwnGEMM or CuBLASLt. Where that
// library is missing the error says what was tried.
func Devices(gemm string) ([]Device, error) {
	list, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	library, err := Options{GEMM: gemm}.version()
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, p := range list {
		d := Device{
			Ordinal: p.Ordinal, Name: p.Name, Capability: fmt.Sprintf("%d.%d", p.Major, p.Minor), Bytes: p.Bytes, Driver: p.Driver, Text: p.String(),
		}
		if p.Check() == nil {
			d.FP32, d.BF16 = class(p.Name, FP32, library), class(p.Name, BF16, library)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Open allocates an engine on a GPU, whose weights, moments and gradients are zero. Where the device's free memory is
// too small the error lists what needs the most.
func Open(c model.Config, o Options) (model.Engine, error) {
	if err := o.check(c); err != nil {
		return nil, err
	}
	device, err := driver.Open(o.Device)
	if err != nil {
		return nil, err
	}
	library, err := o.version()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the CUDA engine: %w", err), device.Close())
	}
	e := &engine{config: c, options: o, layout: model.NewLayout(c), device: device}
	if err := device.Do(func() error { return e.allocate(library) }); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the CUDA engine: %w", err), device.Close())
	}
	return e, nil
}

// allocate makes everything that the engine owns. library is the version of the library of products, or empty.
func (e *engine) allocate(library string) (err error) {
	p := e.device.Properties()
	plan := &driver.Plan{}
	place := newPlan(e.config, e.options, plan)
	arena, err := e.device.Allocate(plan)
	if err != nil {
		return err
	}
	e.mem = place.at(arena)
	if e.host, err = newHostMemory(e.device, e.config, e.options); err != nil {
		return err
	}
	if e.kernels, err = loadKernels(e.device, e.config, e.options); err != nil {
		return err
	}
	if e.compute.stream, err = e.device.NewStream(); err != nil {
		return err
	}
	if e.copies.stream, err = e.device.NewStream(); err != nil {
		return err
	}
	if e.copied, err = e.device.NewEvent(); err != nil {
		return err
	}
	for range e.options.marks(e.config) {
		passed, err := e.device.NewEvent()
		if err != nil {
			return err
		}
		e.passed = append(e.passed, passed)
	}
	e.sorter = newSorter(e.config.Vocab)
	e.info = model.Info{Class: class(p.Name, e.options.Precision, library), Device: p.String(), Bytes: plan.Bytes()}
	if library != "" {
		if err := e.startLibrary(library); err != nil {
			return err
		}
	}
	e.clear()
	return e.compute.finish()
}

// clear sets the state and the gradients to zero.
func (e *engine) clear() {
	n := int64(e.layout.Size)
	for _, p := range append([]driver.Pointer{e.mem.params, e.mem.m, e.mem.v}, e.mem.slots...) {
		if p != 0 {
			e.compute.zero(p, n)
		}
	}
	if e.mem.half != 0 {
		e.compute.zero(e.mem.half, (n+1)/2)
	}
}

// Info says what the engine is.
func (e *engine) Info() model.Info { return e.info }

// Close frees the device; closing twice is allowed.
func (e *engine) Close() error { return e.device.Close() }

// do runs work on the device's thread. The error of a device that has failed for good is a model.ErrDevice.
func (e *engine) do(work func() error) error {
	err := e.device.Do(work)
	if driver.Sticky(err) {
		return deviceError{err}
	}
	return err
}

// deviceError is an error of the driver after which the engine computes nothing.
type deviceError struct{ error }

func (e deviceError) Unwrap() []error { return []error{model.ErrDevice, e.error} }

// call runs work on the device's thread and waits for what it queued: afterwards the host's memory is free again.
func (e *engine) call(work func()) error {
	return e.do(func() error {
		work()
		err := e.compute.finish()
		if err == nil {
			return nil // the compute stream has waited for the copies
		}
		return errors.Join(err, e.copies.finish())
	})
}
