//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"gorgonia.org/cu"
)

// minCapability is the oldest compute capability with bf16 tensor cores and asynchronous copies.
const minCapability = 80

// Properties says what a device is.
type Properties struct {
	Ordinal      int // from 0, as nvidia-smi counts
	Name         string
	Driver       string // newest CUDA version that the driver knows, such as "13.0"
	Major, Minor int    // compute capability
	Bytes        int64  // memory in all
	Shared       int    // most shared memory a block may ask for, in bytes
}

// String is for people: name, capability, memory and driver.
func (p Properties) String() string {
	return fmt.Sprintf("%s (device %d, compute capability %d.%d, %s, driver for CUDA %s)", p.Name, p.Ordinal, p.Major, p.Minor, mebibytes(p.Bytes), p.Driver)
}

// Check returns an error if the device is too old for the kernels.
func (p Properties) Check() error {
	if p.Major*10+p.Minor < minCapability {
		return fmt.Errorf("%s has compute capability %d.%d: 8.0 or newer is needed, for bf16 tensor cores and asynchronous copies: use the CPU engine", p.Name, p.Major, p.Minor)
	}
	return nil
}

// Devices lists the devices of this machine.
func Devices() ([]Properties, error) {
	if err := load(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("listing CUDA devices: %w", check("cuDeviceGetCount", err))
	}
	var list []Properties
	for i := range n {
		p, err := properties(i)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// properties asks what a device is.
func properties(ordinal int) (Properties, error) {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return Properties{}, fmt.Errorf("looking for CUDA device %d: %w", ordinal, check("cuDeviceGet", err))
	}
	name, nameErr := d.Name()
	bytes, bytesErr := d.TotalMem()
	version := cu.Version()
	p := Properties{Ordinal: ordinal, Name: name, Bytes: bytes, Driver: fmt.Sprintf("%d.%d", version/1000, version%1000/10)}
	err = errors.Join(nameErr, bytesErr)
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		value     *int
	}{
		{cu.ComputeCapabilityMajor, &p.Major},
		{cu.ComputeCapabilityMinor, &p.Minor},
		{maxSharedOptIn, &p.Shared},
	} {
		var e error
		*a.value, e = d.Attribute(a.attribute)
		err = errors.Join(err, e)
	}
	if err != nil {
		return Properties{}, fmt.Errorf("asking CUDA device %d what it is: %w", ordinal, err)
	}
	return p, nil
}

// maxSharedOptIn is CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN.
const maxSharedOptIn cu.DeviceAttribute = 97

// Device is an open device. Everything but Open, Properties, Do and Close must be called inside Do. It owns all that
// is made through it, until Close.
type Device struct {
	properties Properties
	calls      chan func() error
	results    chan error
	one        sync.Mutex // one caller of Do at a time
	closed     bool

	// Used inside Do alone.
	failed   error          // the sticky error after which nothing is done
	releases []func() error // of what the device owns, in the order in which it was made
	slots    launchSlots
}

// Open opens a device: from then on one thread talks to it.
func Open(ordinal int) (*Device, error) {
	if err := load(); err != nil {
		return nil, err
	}
	p, err := properties(ordinal)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("opening CUDA device %d: %w", ordinal, err)
	}
	d := &Device{properties: p, calls: make(chan func() error), results: make(chan error)}
	go d.serve()
	err = d.Do(func() error { return d.enter() })
	if err != nil {
		close(d.calls)
		return nil, fmt.Errorf("opening CUDA device %d: %w", ordinal, err)
	}
	return d, nil
}

// serve runs what Do asks for, on a thread that nothing else runs on and that ends with it.
func (d *Device) serve() {
	runtime.LockOSThread()
	for f := range d.calls {
		d.results <- f()
	}
}

// enter makes the device's primary context the thread's.
func (d *Device) enter() error {
	handle := cu.Device(d.properties.Ordinal)
	context, err := handle.RetainPrimaryCtx()
	if err != nil {
		return check("cuDevicePrimaryCtxRetain", err)
	}
	d.own(func() error { return check("cuDevicePrimaryCtxRelease", handle.ReleasePrimaryCtx()) })
	if err := cu.SetCurrentContext(context); err != nil {
		return errors.Join(check("cuCtxSetCurrent", err), d.release())
	}
	return nil
}

// Properties says what the device is.
func (d *Device) Properties() Properties { return d.properties }

// ErrClosed is the cause of every error of a device after Close.
var ErrClosed = errors.New("the device is closed")

// Do runs f on the device's thread and returns its error. After a sticky error of the driver nothing runs any more:
// the device must be closed and opened anew.
func (d *Device) Do(f func() error) error {
	d.one.Lock()
	defer d.one.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.calls <- func() error {
		if d.failed != nil {
			return fmt.Errorf("using CUDA device %d after it failed: open it anew: the failure was: %w", d.properties.Ordinal, d.failed)
		}
		err := f()
		if Sticky(err) {
			d.failed = err
		}
		return err
	}
	return <-d.results
}

// own registers how to release something that the device owns.
func (d *Device) own(release func() error) { d.releases = append(d.releases, release) }

// release frees what the device owns, newest first.
func (d *Device) release() error {
	var errs []error
	for i := len(d.releases) - 1; i >= 0; i-- {
		errs = append(errs, d.releases[i]())
	}
	d.releases = nil
	return errors.Join(errs...)
}

// Close frees everything and ends the device's thread. After a sticky error the driver refuses to free; the
// context's end frees all the same, and Close returns nil.
func (d *Device) Close() error {
	d.one.Lock()
	defer d.one.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.calls <- func() error {
		err := d.release()
		if d.failed != nil {
			return nil
		}
		return err
	}
	err := <-d.results
	close(d.calls)
	if err != nil {
		return fmt.Errorf("closing CUDA device %d: %w", d.properties.Ordinal, err)
	}
	return nil
}
