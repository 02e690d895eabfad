package cli

import (
	"context"

	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
	"andrea/vfs"
	"andrea/watch"
)

// maxWaitingLines is how many lines of the bus wait to be shown. Those of processes
// with a file here are read there when they find no room.
const maxWaitingLines = 4096

// listener is an observer that hears the log lines of the bus.
type listener struct {
	observer
	ctx   context.Context
	lines chan watch.Line
	told  bool // that the run cannot be asked
}

func newListener(ctx context.Context, fsys vfs.FS, dir string) *listener {
	return &listener{observer: observer{fs: fsys, dir: dir}, ctx: ctx, lines: make(chan watch.Line, maxWaitingLines)}
}

// link finds out whether there is a coordinator, and listens from the first time on
// that there is a server. news is why that cannot be told, the first time.
func (l *listener) link() (link watch.Link, news error) {
	ctx, cancel := context.WithTimeout(l.ctx, observeTime)
	defer cancel()
	if l.bus == nil {
		link, err := l.listen(ctx)
		if err != nil {
			return link, l.once(link, err)
		}
	}
	_, link, err := l.ask(ctx)
	if link == watch.Gone { // a resumed run may listen elsewhere: look for it anew
		l.close()
		l.bus = nil
	}
	return link, l.once(link, err)
}

func (l *listener) once(link watch.Link, err error) error {
	if link != watch.Unknown || l.told || l.ctx.Err() != nil {
		return nil
	}
	l.told = true
	return err
}

// listen connects and subscribes.
func (l *listener) listen(ctx context.Context) (watch.Link, error) {
	link, err := l.connect(ctx)
	if err != nil {
		return link, err
	}
	if _, err = l.bus.Subscribe(wire.Logs(l.run), l.hear); err != nil {
		l.close()
		l.bus = nil
		return watch.Unknown, err
	}
	return link, nil
}

// hear queues a line; when there is no room it is left to the file.
func (l *listener) hear(m transport.Message) {
	process, ok := wire.LoggedBy(m.Subject)
	if !ok {
		return
	}
	select {
	case l.lines <- lineOf(process, m.Data):
	default:
	}
}

// lineOf judges a line that came over the bus.
func lineOf(process string, data []byte) watch.Line {
	if len(data) > watch.MaxLine {
		return watch.Damaged(process, data, len(data), "too long")
	}
	return watch.Parse(process, data)
}
