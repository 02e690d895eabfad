package cli

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"andrea/model"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// onFile is a countingFS's function that does not care what is done.
func onFile(before func() error) func(kind, path string) error {
	return func(string, string) error { return before() }
}

// killAt kills this process in the n-th call of the result, from 1, before anything is
// done.
func killAt(n int) func() error {
	var seen atomic.Int64
	return func() error {
		if seen.Add(1) == int64(n) {
			kill()
		}
		return nil
	}
}

// nothing is what is done where nothing is to be counted.
func nothing() error { return nil }

// countingBus calls before and after around every control message that is sent; log
// lines are none.
type countingBus struct {
	transport.Bus
	before, after func() error
}

func (c countingBus) Publish(subject string, data []byte) error {
	if strings.Contains(subject, ".log.") {
		return c.Bus.Publish(subject, data)
	}
	if err := c.before(); err != nil {
		return err
	}
	err := c.Bus.Publish(subject, data)
	return errors.Join(err, c.after())
}

// countingFS calls before before every operation that changes something, on files too,
// with its kind and path; its error becomes that of the operation.
type countingFS struct {
	vfs.FS
	before func(kind, path string) error
}

func (c *countingFS) Create(path string, perm fs.FileMode) (vfs.File, error) {
	return c.file(path, func() (vfs.File, error) { return c.FS.Create(path, perm) })
}

func (c *countingFS) CreateExclusive(path string, perm fs.FileMode) (vfs.File, error) {
	return c.file(path, func() (vfs.File, error) { return c.FS.CreateExclusive(path, perm) })
}

func (c *countingFS) OpenAppend(path string) (vfs.File, error) {
	return c.file(path, func() (vfs.File, error) { return c.FS.OpenAppend(path) })
}

func (c *countingFS) file(path string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := c.before("create", path); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &countingFile{f, path, c.before}, nil
}

func (c *countingFS) Rename(oldPath, newPath string) error {
	if err := c.before("rename", newPath); err != nil {
		return err
	}
	return c.FS.Rename(oldPath, newPath)
}

func (c *countingFS) Remove(path string) error {
	if err := c.before("remove", path); err != nil {
		return err
	}
	return c.FS.Remove(path)
}

func (c *countingFS) MkdirAll(path string) error {
	if err := c.before("mkdir", path); err != nil {
		return err
	}
	return c.FS.MkdirAll(path)
}

func (c *countingFS) SyncDir(path string) error {
	if err := c.before("syncdir", path); err != nil {
		return err
	}
	return c.FS.SyncDir(path)
}

type countingFile struct {
	vfs.File
	path   string
	before func(kind, path string) error
}

func (f *countingFile) Write(b []byte) (int, error) {
	if err := f.before("write", f.path); err != nil {
		n, _ := f.File.Write(b[:len(b)/2]) // as a full disk may
		return n, err
	}
	return f.File.Write(b)
}

func (f *countingFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.before("write", f.path); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func (f *countingFile) Sync() error {
	if err := f.before("sync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

// counting calls before before every call of an engine by which a worker does what a
// message asks for.
func counting(open func(model.Config, int, int) (model.Engine, error), before func() error) func(model.Config, int, int) (model.Engine, error) {
	return func(c model.Config, microbatch, slots int) (model.Engine, error) {
		engine, err := open(c, microbatch, slots)
		return &countingEngine{engine, before}, err
	}
}

type countingEngine struct {
	model.Engine
	before func() error
}

func (e *countingEngine) Load(bucket int, params, m, v []float32) error {
	if err := e.before(); err != nil {
		return err
	}
	return e.Engine.Load(bucket, params, m, v)
}

func (e *countingEngine) Save(bucket int, params, m, v []float32) error {
	if err := e.before(); err != nil {
		return err
	}
	return e.Engine.Save(bucket, params, m, v)
}

func (e *countingEngine) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if err := e.before(); err != nil {
		return model.Loss{}, err
	}
	return e.Engine.Accumulate(slot, b)
}

func (e *countingEngine) Eval(b model.Batch) (model.Loss, error) {
	if err := e.before(); err != nil {
		return model.Loss{}, err
	}
	return e.Engine.Eval(b)
}

func (e *countingEngine) Fold(dst, src int) error {
	if err := e.before(); err != nil {
		return err
	}
	return e.Engine.Fold(dst, src)
}

func (e *countingEngine) ReadGrad(slot, bucket int, g []float32) error {
	if err := e.before(); err != nil {
		return err
	}
	return e.Engine.ReadGrad(slot, bucket, g)
}

func (e *countingEngine) WriteGrad(slot, bucket int, g []float32) error {
	if err := e.before(); err != nil {
		return err
	}
	return e.Engine.WriteGrad(slot, bucket, g)
}

func (e *countingEngine) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	if err := e.before(); err != nil {
		return model.Digest{}, err
	}
	return e.Engine.Update(slot, scale, h)
}
