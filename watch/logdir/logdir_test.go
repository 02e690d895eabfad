package logdir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"andrea/vfs"
	"andrea/vfs/crashfs"
	"andrea/watch"
)

// folder is a folder of logs that a test writes.
type folder struct {
	t    *testing.T
	fs   *crashfs.FS
	seqs map[string]int
}

func newFolder(t *testing.T) *folder {
	f := &folder{t, crashfs.New(), map[string]int{}}
	if err := f.fs.MkdirAll("logs"); err != nil {
		t.Fatal(err)
	}
	return f
}

// append writes bytes at the end of a log.
func (f *folder) append(process, text string) {
	f.t.Helper()
	file, err := f.fs.OpenAppend("logs/" + process + ".jsonl")
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		f.t.Fatal(err)
	}
}

// line is the next line of a process, said at a second of time.
func (f *folder) line(process, msg string, second int) string {
	f.seqs[process]++
	return fmt.Sprintf(`{"ts":"2026-01-01T00:00:%02dZ","level":"info","run":"demo","process":%q,"seq":%d,"msg":%q}`, second, process, f.seqs[process], msg)
}

func (f *folder) log(process, msg string, second int) {
	f.t.Helper()
	f.append(process, f.line(process, msg, second)+"\n")
}

// screen collects what is shown.
type screen struct{ shown []string }

func (s *screen) emit(l watch.Line) error {
	s.shown = append(s.shown, l.Process+": "+l.Msg+l.Damage)
	return nil
}

func (s *screen) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.shown, want) {
		t.Errorf("shown\n%s\nwant\n%s", strings.Join(s.shown, "\n"), strings.Join(want, "\n"))
	}
	s.shown = nil
}

func (f *folder) open() *Dir {
	d := Open(f.fs, "logs", func(err error) { f.t.Errorf("warning: %v", err) })
	f.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return d
}

func TestDirShowsWhatIsNew(t *testing.T) {
	f, s := newFolder(t), &screen{}
	d := f.open()
	drain := func() {
		t.Helper()
		if err := d.Drain(s.emit); err != nil {
			t.Fatal(err)
		}
	}
	drain()
	s.want(t)
	f.log("worker", "two", 2)
	f.log("coordinator", "one", 1)
	f.log("coordinator", "three", 3)
	drain()
	s.want(t, "coordinator: one", "worker: two", "coordinator: three")
	text := f.line("worker", "four", 4)
	f.append("worker", text[:20])
	f.log("other", "new file", 5)
	drain()
	s.want(t, "other: new file")
	if err := d.Torn(s.emit); err != nil {
		t.Fatal(err)
	}
	s.want(t, "worker: it has no end: torn by a crash, or being written")
	f.append("worker", text[20:]+"\n")
	drain()
	s.want(t, "worker: four")
	if got := d.Processes(); !slices.Equal(got, []string{"coordinator", "other", "worker"}) {
		t.Errorf("processes %v", got)
	}
}

func TestAMissingFolderIsEmpty(t *testing.T) {
	d := Open(crashfs.New(), "logs", func(err error) { t.Error(err) })
	if err := errors.Join(d.Drain(nil), d.Torn(nil), d.Close()); err != nil || len(d.Processes()) != 0 {
		t.Errorf("%v, %v", err, d.Processes())
	}
}

// What cannot be read is named once, and the rest is shown.
func TestUnreadableLogsAreNamedOnce(t *testing.T) {
	f, s := newFolder(t), &screen{}
	if err := f.fs.MkdirAll("logs/odd.jsonl"); err != nil {
		t.Fatal(err)
	}
	f.append("notes.txt", "x") // notes.txt.jsonl: a log of damaged lines
	f.log("worker", "one", 1)
	var warnings []string
	d := Open(failing{f.fs}, "logs", func(err error) { warnings = append(warnings, err.Error()) })
	for range 3 {
		if err := d.Drain(s.emit); err != nil {
			t.Fatal(err)
		}
	}
	s.want(t)
	if len(warnings) != 3 || !strings.Contains(warnings[0], "odd.jsonl") || !strings.Contains(warnings[1], "notes.txt.jsonl") || !strings.Contains(warnings[2], "worker.jsonl") {
		t.Errorf("warnings %q", warnings)
	}
}

// failing is a disk whose files open and cannot be read.
type failing struct{ vfs.FS }

func (f failing) Open(path string) (vfs.File, error) {
	file, err := f.FS.Open(path)
	return unreadable{file}, err
}

type unreadable struct{ vfs.File }

func (unreadable) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

// follow runs a Follower through scenes: what happens before each look, and the link found then.
func follow(t *testing.T, f *folder, live chan watch.Line, scenes []func() watch.Link) (shown *screen, ended bool, err error) {
	t.Helper()
	shown = &screen{}
	look := make(chan time.Time, len(scenes))
	for range scenes {
		look <- time.Time{}
	}
	scene := 0
	follower := Follower{
		Dir: f.open(), Live: live, Look: look, Emit: shown.emit,
		Link: func() watch.Link {
			if scene == len(scenes) {
				t.Fatal("the follower goes on")
			}
			scene++
			return scenes[scene-1]()
		},
	}
	ended, err = follower.Run(t.Context())
	if err == nil && scene != len(scenes) {
		t.Errorf("ended after %d of %d scenes", scene, len(scenes))
	}
	return shown, ended, err
}

// parsed is a line as it arrives on the bus.
func parsed(process, line string) watch.Line { return watch.Parse(process, []byte(line)) }

// The bus rings before, after and instead of a file's lines, and loses some: each is shown once.
func TestFollowShowsEveryLineOnce(t *testing.T) {
	f, live := newFolder(t), make(chan watch.Line, 10)
	f.log("coordinator", watch.RunStarted, 1)
	shown, ended, err := follow(t, f, live, []func() watch.Link{
		func() watch.Link { return watch.Silent },
		func() watch.Link {
			one, two := f.line("worker", "one", 2), f.line("worker", "two", 3)
			live <- parsed("worker", one)
			f.append("worker", one+"\n"+two+"\n")
			live <- parsed("worker", two)
			return watch.Answering
		},
		func() watch.Link { // of one that is elsewhere; its line 2 was lost
			live <- parsed("far", f.line("far", "far one", 3))
			f.seqs["far"]++
			live <- parsed("far", f.line("far", "far three", 5))
			return watch.Answering
		},
		func() watch.Link { // and has a file later, which is not read
			f.append("far", f.line("far", "from the file", 5)+"\n")
			return watch.Answering
		},
		func() watch.Link {
			f.log("coordinator", watch.RunEnded, 6)
			f.log("worker", "left", 7)
			return watch.Gone
		},
		func() watch.Link { f.append("worker", "{torn"); return watch.Gone },
	})
	if err != nil || !ended {
		t.Errorf("ended %v, %v", ended, err)
	}
	shown.want(t, "coordinator: run started", "worker: one", "worker: two", "far: far one",
		"far: lines lost on the bus before the next one: 1", "far: far three",
		"coordinator: run ended", "worker: left", "worker: it has no end: torn by a crash, or being written")
}

// A run whose processes were killed ends when its files do not grow any more.
func TestFollowEndsWhenTheRunIsGone(t *testing.T) {
	f := newFolder(t)
	f.log("coordinator", watch.RunStarted, 1)
	gone := func() watch.Link { return watch.Gone }
	scenes := slices.Repeat([]func() watch.Link{gone}, 9)
	shown, ended, err := follow(t, f, make(chan watch.Line), scenes)
	if err != nil || ended {
		t.Errorf("ended %v, %v", ended, err)
	}
	shown.want(t, "coordinator: run started")
}

func TestFollowStopsWhenAsked(t *testing.T) {
	f := newFolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	follower := Follower{Dir: f.open(), Live: make(chan watch.Line), Emit: (&screen{}).emit,
		Link: func() watch.Link { cancel(); return watch.Answering }}
	if _, err := follower.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// When nobody reads any more, following ends, wherever the line came from.
func TestFollowEndsWhenNobodyReads(t *testing.T) {
	full := errors.New("the pipe is closed")
	for name, prepare := range map[string]func(*folder, chan watch.Line){
		"file": func(f *folder, _ chan watch.Line) { f.log("worker", "one", 1) },
		"bus":  func(f *folder, live chan watch.Line) { live <- parsed("far", f.line("far", "one", 1)) },
		"torn": func(f *folder, _ chan watch.Line) { f.append("worker", "{") },
	} {
		f, live, look := newFolder(t), make(chan watch.Line, 1), make(chan time.Time, 10)
		prepare(f, live)
		for range 10 {
			look <- time.Time{}
		}
		follower := Follower{Dir: f.open(), Live: live, Look: look, Emit: func(watch.Line) error { return full }, Link: func() watch.Link { return watch.Gone }}
		if _, err := follower.Run(t.Context()); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
