package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"andrea/pipeline"
	"andrea/pipeline/transport/natsbus"
	"andrea/vfs"
)

// observerKeyFile lets in who only looks, as workerKeyFile lets in workers.
const observerKeyFile = "observer.json"

// MakeKeys writes the key files of a run whose server is still to be started into a folder:
// server.json with all keys, for the coordinator, worker.json and observer.json with one each.
// address is where these find the server, and may be empty; certificate, in PEM, is the only one that
// they accept there, or empty. Nothing is written where one of the files exists.
func MakeKeys(fsys vfs.FS, dir, run, address string, certificate []byte) error {
	fail := func(err error) error { return fmt.Errorf("making keys in %s: %w", dir, err) }
	if !pipeline.ValidName(run) {
		return fail(fmt.Errorf("the run's name is %q: use 1 to 63 of a-z, 0-9 and -, not at the ends", run))
	}
	all, err := natsbus.NewIdentity(run, roleCoordinator, roleWorker, RoleObserver)
	if err != nil {
		return fail(err)
	}
	if address != "" {
		where := natsbus.ConnOptions{URL: address, Credential: natsbus.Credential{Seed: all.Keys[roleWorker]}, Plaintext: true}
		if err := where.CheckURL(); err != nil {
			return fail(err)
		}
	}
	all.Address, all.Certificate = address, string(certificate)
	for _, name := range []string{natsbus.IdentityFile, workerKeyFile, observerKeyFile} {
		if _, err := fsys.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Errorf("there is a %s already: choose another folder, or delete it", name))
		}
	}
	if err := vfs.MkdirAllDurable(fsys, dir); err != nil {
		return fail(err)
	}
	if err := writeKeys(fsys, dir, all); err != nil {
		return fail(err)
	}
	return nil
}

func writeKeys(fsys vfs.FS, dir string, all natsbus.Identity) error {
	worker, err := all.Only(roleWorker)
	if err != nil {
		return err
	}
	observer, err := all.Only(RoleObserver)
	if err != nil {
		return err
	}
	return errors.Join(
		all.Write(fsys, filepath.Join(dir, natsbus.IdentityFile)),
		worker.Write(fsys, filepath.Join(dir, workerKeyFile)),
		observer.Write(fsys, filepath.Join(dir, observerKeyFile)))
}
