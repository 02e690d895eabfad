package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"time"

	"andrea/launch"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/vfs"
	"andrea/watch"
)

// observeTime bounds how long a command waits for a run's server and coordinator
// together.
const observeTime = 2 * time.Second

// observer asks a run how it goes and listens to its logs.
type observer struct {
	fs     vfs.FS
	dir    string              // of the run; empty when remote says how to reach it
	remote *launch.Remote      // a server to ask; nil: the one that the folder names
	run    string              // its name; empty before connect, unless it was chosen
	access natsbus.ConnOptions // with remote: how it was reached
	bus    transport.Bus
}

// connect finds the run's server through its folder, unless it is told where it is. When there is
// none the link is Gone, when that cannot be told Unknown; the error says why.
func (ob *observer) connect(ctx context.Context) (watch.Link, error) {
	if ob.remote != nil {
		return ob.connectRemote(ctx)
	}
	id, err := natsbus.ReadIdentity(ob.fs, ob.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if who := launch.InUse(ob.fs, ob.dir); who != "" {
			return watch.Unknown, fmt.Errorf("%s holds its lock, but it has no server.json that says where to ask: it is starting, or that file was deleted", who)
		}
		return watch.Gone, errors.New("its server was never started, or its server.json was deleted")
	case err != nil:
		return watch.Unknown, err
	}
	ob.run = id.Run
	credential, err := id.Credential(launch.RoleObserver)
	if err != nil {
		return watch.Unknown, fmt.Errorf("%w: it was started by an older version of this program", err)
	}
	if link, err := reach(ctx, id.Address); err != nil {
		return link, err
	}
	ob.bus, err = connectWithin(ctx, natsbus.ConnOptions{URL: id.Address, Credential: credential, Pin: []byte(id.Certificate), Name: "observer"})
	switch {
	case err == nil:
		return watch.Silent, nil
	case ctx.Err() == nil: // refused at once: the keys of a run stay the same, so this is another's server
		return watch.Gone, fmt.Errorf("at %s listens something else than its server", id.Address)
	}
	return watch.Unknown, err
}

// reach tells at once when nobody listens at an address, which a bus would wait for.
func reach(ctx context.Context, address string) (watch.Link, error) {
	u, err := url.Parse(address)
	if err != nil {
		return watch.Unknown, errors.New("the address of its server is no URL")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	switch {
	case err == nil:
		return watch.Silent, conn.Close()
	case ctx.Err() != nil:
		return watch.Unknown, fmt.Errorf("its server at %s: %w", address, err)
	}
	return watch.Gone, fmt.Errorf("nobody listens at %s", address)
}

// connectWithin connects before ctx is done, or not at all.
func connectWithin(ctx context.Context, o natsbus.ConnOptions) (transport.Bus, error) {
	type connected struct {
		bus transport.Bus
		err error
	}
	done := make(chan connected, 1)
	go func() {
		bus, err := natsbus.Connect(ctx, o)
		done <- connected{bus, err}
	}()
	select {
	case c := <-done:
		return c.bus, c.err
	case <-ctx.Done(): // a connection attempt to a server that says nothing outlasts ctx
		go func() {
			if c := <-done; c.bus != nil {
				_ = c.bus.Close() // too late to be of use
			}
		}()
		return nil, fmt.Errorf("connecting to %s: %w", o.URL, ctx.Err())
	}
}

// ask gets the coordinator's report. The link is Answering exactly if there is no
// error.
func (ob *observer) ask(ctx context.Context) (runner.Report, watch.Link, error) {
	if ob.bus == nil {
		if link, err := ob.connect(ctx); err != nil {
			return runner.Report{}, link, err
		}
	}
	report, err := runner.AskStatus(ctx, ob.bus, ob.run)
	switch {
	case err == nil:
		return report, watch.Answering, nil
	case errors.Is(err, transport.ErrNoResponders):
		if ob.remote != nil {
			return report, watch.Silent, ob.notThere(ctx)
		}
		return report, watch.Silent, errors.New("its server runs, but no coordinator answers: it is starting or ending")
	case errors.Is(err, transport.ErrDisconnected):
		return report, watch.Gone, errors.New("the connection to its server is cut")
	}
	return report, watch.Unknown, err
}

func (ob *observer) close() {
	if ob.bus != nil {
		_ = ob.bus.Close() // nothing was sent that could be lost
	}
}
