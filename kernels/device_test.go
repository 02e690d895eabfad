package kernels_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"andrea/kernels"
)

// A device is a process that runs kernels on the software device (testdata/runner.cc).
type device struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	log    *bytes.Buffer
	loaded map[string]bool
	next   uint64
	faults *[]error // where a test that expects them wants faults; nil: they fail the test
}

// buffer is memory of the device, from an offset on.
type buffer struct {
	id     uint64
	size   int // bytes
	offset int // bytes
}

// from is the buffer from byte n on, as a kernel sees it.
func (b buffer) from(n int) buffer {
	b.offset += n
	return b
}

// needCompiler skips the test where the compiler of the images and of the device is missing.
func needCompiler(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("clang++-19"); err != nil {
		t.Skip("clang++-19 is not installed: it compiles the kernels for the software device and for GPUs")
	}
}

var plainRunner struct {
	sync.Mutex
	path string
}

// plain is the runner of the kernels as they are, without sanitizers, built once.
func plain(t testing.TB) string {
	t.Helper()
	plainRunner.Lock()
	defer plainRunner.Unlock()
	if plainRunner.path == "" {
		plainRunner.path = build(t, "plain", "plain", ".")
	}
	return plainRunner.path
}

// build compiles the software device with the kernels of a folder and the runner, and returns the runner's path.
func build(t testing.TB, name, mode, sources string) string {
	t.Helper()
	needCompiler(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(cache, "andrea", "softcuda", "kernels-"+name)
	cmd := exec.Command("sh", "../cudaengine/softcuda/build.sh", out, mode)
	cmd.Env = append(os.Environ(), "CXX=clang++-19", "KERNELS="+sources)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the software device: %v\n%s", err, text)
	}
	flags := map[string][]string{"asan": {"-fsanitize=address", "-shared-libasan"}, "tsan": {"-fsanitize=thread"}}[mode]
	runner := filepath.Join(out, "runner")
	if mode == "asan" {
		runtime, err := filepath.EvalSymlinks(filepath.Join(out, "asan_runtime.so"))
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "-Wl,-rpath,"+filepath.Dir(runtime))
	}
	args := append([]string{"-std=c++17", "-O1", "-g", "-o", runner, "testdata/runner.cc", filepath.Join(out, "libcuda.so.1"), "-Wl,-rpath," + out}, flags...)
	if text, err := exec.Command("clang++-19", args...).CombinedOutput(); err != nil {
		t.Fatalf("building the runner: %v\n%s", err, text)
	}
	return runner
}

// start runs a runner until the test ends, which fails if the runner does.
func start(t testing.TB, runner string, env ...string) *device {
	t.Helper()
	d := &device{t: t, cmd: exec.Command(runner), log: &bytes.Buffer{}, loaded: map[string]bool{}}
	d.cmd.Env = append(os.Environ(), env...)
	d.cmd.Stderr = d.log
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.check(d.end()) })
	return d
}

// end stops the runner and returns what it complains about.
func (d *device) end() error {
	if d.cmd.ProcessState != nil {
		return nil
	}
	d.in.Close()
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("the software device ended with %v: %s", err, d.log)
	}
	return nil
}

// ask sends a command and returns the answer.
func (d *device) ask(command byte, fields ...any) ([]byte, error) {
	b := []byte{command}
	for _, f := range fields {
		switch f := f.(type) {
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, f)
		case []byte:
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(f))), f...)
		}
	}
	if _, err := d.in.Write(b); err != nil {
		return nil, errors.Join(err, d.end())
	}
	var head [8]byte
	if _, err := io.ReadFull(d.out, head[:]); err != nil {
		return nil, errors.Join(err, d.end())
	}
	n := binary.LittleEndian.Uint64(head[:])
	answer := make([]byte, n&^(1<<63))
	if _, err := io.ReadFull(d.out, answer); err != nil {
		return nil, errors.Join(err, d.end())
	}
	if n>>63 == 1 {
		return nil, fmt.Errorf("%s", answer)
	}
	return answer, nil
}

func (d *device) must(command byte, fields ...any) []byte {
	d.t.Helper()
	answer, err := d.ask(command, fields...)
	d.check(err)
	return answer
}

func (d *device) check(err error) {
	d.t.Helper()
	switch {
	case err == nil:
	case d.faults == nil:
		d.t.Fatal(err)
	default:
		*d.faults = append(*d.faults, err)
	}
}

// set changes a mode of the device.
func (d *device) set(variable, value string) { d.must('E', []byte(variable+"="+value)) }

// free gives all buffers back.
func (d *device) free() { d.must('X'); d.next = 0 }

// bytesOf is a slice as the device sees it.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// room allocates n elements that nobody has written.
func room[T any](d *device, n int) buffer {
	b := buffer{size: n * int(unsafe.Sizeof(*new(T)))}
	d.must('N', uint64(b.size))
	d.next++
	b.id = d.next
	return b
}

// upload allocates a copy of x.
func upload[T any](d *device, x []T) buffer {
	b := room[T](d, len(x))
	d.must('W', b.id, bytesOf(x))
	return b
}

// download copies a buffer.
func download[T any](d *device, b buffer) []T {
	d.t.Helper()
	x := make([]T, b.size/int(unsafe.Sizeof(*new(T))))
	copy(bytesOf(x), d.must('R', b.id))
	return x
}

// launch runs a kernel of the table and returns what is wrong. Arguments are buffers (the zero buffer is no address),
// ints and float32s, in the order of the table.
func (d *device) launch(name string, s kernels.Sizes, args ...any) error {
	k, ok := kernels.Lookup(name)
	if !ok || len(args) != len(k.Params) {
		return fmt.Errorf("launching %s with %d arguments: the table does not know it so", name, len(args))
	}
	if !d.loaded[k.Module] {
		image, err := kernels.Image(k.Module)
		if err != nil {
			return err
		}
		if _, err := d.ask('I', []byte(image)); err != nil {
			return err
		}
		d.loaded[k.Module] = true
	}
	g := k.Grid(s)
	fields := []any{[]byte(name), uint64(g[0]), uint64(g[1]), uint64(g[2]), uint64(k.Threads), uint64(k.Shared), uint64(len(args))}
	for i, a := range args {
		kind, value, typ := uint64(0), uint64(0), kernels.Pointer
		switch a := a.(type) {
		case buffer:
			kind, value = 1, a.id|uint64(a.offset)<<32
		case int:
			value, typ = uint64(uint32(int32(a))), kernels.Int
		case float32:
			value, typ = uint64(math.Float32bits(a)), kernels.Float
		}
		if k.Params[i].Type != typ {
			return fmt.Errorf("launching %s: argument %s has another type", name, k.Params[i].Name)
		}
		fields = append(fields, kind, value)
	}
	_, err := d.ask('L', fields...)
	return err
}

// run launches a kernel that must succeed.
func (d *device) run(name string, s kernels.Sizes, args ...any) {
	d.t.Helper()
	d.check(d.launch(name, s, args...))
}
