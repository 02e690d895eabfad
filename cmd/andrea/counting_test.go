package main

import (
	"io/fs"
	"sync/atomic"

	"andrea/model"
	"andrea/vfs"
)

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

// countingFS calls before before every operation that changes something, on files too;
// its error becomes that of the operation.
type countingFS struct {
	vfs.FS
	before func() error
}

func (c *countingFS) Create(path string, perm fs.FileMode) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.FS.Create(path, perm) })
}

func (c *countingFS) CreateExclusive(path string, perm fs.FileMode) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.FS.CreateExclusive(path, perm) })
}

func (c *countingFS) OpenAppend(path string) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.FS.OpenAppend(path) })
}

func (c *countingFS) file(open func() (vfs.File, error)) (vfs.File, error) {
	if err := c.before(); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &countingFile{f, c.before}, nil
}

func (c *countingFS) Rename(oldPath, newPath string) error {
	return c.do(func() error { return c.FS.Rename(oldPath, newPath) })
}

func (c *countingFS) Remove(path string) error {
	return c.do(func() error { return c.FS.Remove(path) })
}

func (c *countingFS) MkdirAll(path string) error {
	return c.do(func() error { return c.FS.MkdirAll(path) })
}

func (c *countingFS) SyncDir(path string) error {
	return c.do(func() error { return c.FS.SyncDir(path) })
}

func (c *countingFS) do(operation func() error) error {
	if err := c.before(); err != nil {
		return err
	}
	return operation()
}

type countingFile struct {
	vfs.File
	before func() error
}

func (f *countingFile) Write(b []byte) (int, error) {
	if err := f.before(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *countingFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.before(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func (f *countingFile) Sync() error {
	if err := f.before(); err != nil {
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
