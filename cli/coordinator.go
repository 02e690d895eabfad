package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"andrea/launch"
)

func coordinatorCommand(o outside) *cobra.Command {
	var f coordinatorFlags
	c := &cobra.Command{
		Use:     "coordinator",
		Version: version(),
		Short:   "Coordinate a run whose workers are other processes",
		Long: `Coordinate a run whose workers are other processes.

The coordinator reads the dataset, keeps journal and checkpoints in the run's folder,
and runs the NATS server that the workers connect to. It begins to train when all
workers have joined. A run that exists is gone on with: give its folder alone, or the job
that it began with, so that what starts a coordinator again can repeat its command.

Its server listens on this machine alone, unless it gets a certificate and its key. With
--nats the run uses a server that somebody else runs, and has none of its own.`,
		Example: `  andrea coordinator --job job.yaml --data tokens/books-0123456789ab --run runs/big --listen 127.0.0.1:4222 --workers 2
  andrea worker --creds runs/big/worker.json          twice, each in a terminal of its own
  andrea coordinator --run runs/big --listen 0.0.0.0:4222 --tls-cert tls.crt --tls-key tls.key --keys secrets/server.json
  andrea coordinator --job job.yaml --run runs/big --nats tls://nats.example.com:4222 --creds coordinator.creds`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return coordinate(c.Context(), o, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.train.job, "job", "", "job spec in YAML")
	flags.StringVar(&f.train.data, "data", "", "folder of a prepared token dataset (default: the job's data.path)")
	flags.StringArrayVar(&f.train.set, "set", nil, "set one key of the job, such as optimizer.lr=6e-4; can be repeated")
	flags.StringVar(&f.train.run, "run", "", "folder of the run")
	flags.StringVar(&f.listen, "listen", "", "address for the run's NATS server (default 127.0.0.1 and a free port); beyond this machine only with --tls-cert and --tls-key")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM file of the certificate of the run's NATS server; worker.json names it, so that no authority is needed")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM file of the key of that certificate")
	flags.StringVar(&f.keys, "keys", "", "server.json of 'andrea keys': the keys that let in workers and observers (default: made at the first start)")
	f.nats.add(c, "use this NATS server, which somebody else runs", "with --nats: credentials for it: "+othersCreds)
	flags.StringVar(&f.http, "http", "", "address, such as :8080, that answers probes: /healthz when the process runs, /startupz and /readyz when the run can be asked, and /metrics for Prometheus")
	flags.IntVar(&f.workers, "workers", 1, "how many workers train together")
	flags.BoolVar(&f.train.json, "json", false, "one JSON line a step on standard output, also on a terminal")
	return c
}

type coordinatorFlags struct {
	train   trainFlags
	nats    natsFlags
	listen  string
	tlsCert string
	tlsKey  string
	keys    string
	http    string
	workers int
}

func coordinate(ctx context.Context, o outside, f coordinatorFlags) error {
	if f.train.run == "" {
		return badInput(errors.New("coordinating a run: no folder is given: name it with --run"))
	}
	if err := checkWorkers(f.workers); err != nil {
		return badInput(err)
	}
	if f.nats.remote.URL == "" && (f.nats.given() || f.nats.remote.CA != "") {
		return badInput(errors.New("coordinating a run: --creds and --ca are for a server that somebody else runs: name it with --nats"))
	}
	o.goOnWithout()
	show := newScreen(o, f.train.json)
	defer show.close()
	guard := newGuard(ctx, o)
	defer guard.close()
	environment := show.environment(o, guard)
	environment.Listen, environment.TLSCert, environment.TLSKey, environment.Keys = f.listen, f.tlsCert, f.tlsKey, f.keys
	environment.NATS, environment.HTTP = f.nats.remote, f.http
	environment.Serving = func(address, keyFile string) {
		if keyFile == "" {
			show.note("coordinating at %s: %s: andrea worker --nats %s --creds FILE", address, toJoin(f.workers), address)
			return
		}
		show.note("serving at %s: %s: andrea worker --creds %s", address, toJoin(f.workers), keyFile)
	}
	environment.Crew = launch.Crew{Workers: f.workers, Elsewhere: true}
	exists, err := launch.Exists(o.fs, f.train.run)
	if err != nil {
		return inputOrDisk(fmt.Errorf("looking for the run %s: %w", f.train.run, err))
	}
	open, train, again := f.create, trainRun, f.again("")
	if exists {
		open, train, again = f.open, goOn, f.again(f.train.data)
	}
	run, err := open(o, environment)
	if err != nil {
		return guard.explain(inputOrDisk(err))
	}
	return train(o, run, guard, show, again)
}

// again is the command that goes on with the run, whose dataset lies at data; empty: where its job says. Workers
// on somebody else's server wait for the coordinator there.
func (f coordinatorFlags) again(data string) string {
	if f.nats.remote.URL == "" {
		return resumeLine(f.train.run, data)
	}
	line := commandName() + " coordinator --run " + f.train.run
	for _, given := range []struct{ flag, value string }{
		{"--data", data}, {"--nats", f.nats.remote.URL}, {"--creds", f.nats.remote.Creds}, {"--ca", f.nats.remote.CA}, {"--http", f.http},
	} {
		if given.value != "" {
			line += " " + given.flag + " " + given.value
		}
	}
	if f.nats.remote.Plaintext {
		line += " --plaintext-network"
	}
	return fmt.Sprintf("%s --workers %d", line, f.workers)
}

// toJoin says how many workers a coordinator waits for.
func toJoin(workers int) string {
	if workers == 1 {
		return "1 worker is to join"
	}
	return fmt.Sprintf("%d workers are to join", workers)
}

// open opens a run that exists. A job that is given must be the run's own.
func (f coordinatorFlags) open(o outside, environment launch.Environment) (*launch.Run, error) {
	if f.train.job == "" && len(f.train.set) == 0 {
		return launch.Open(environment, f.train.run, f.train.data)
	}
	spec, err := f.train.jobSpec(o.fs)
	if err != nil {
		return nil, err
	}
	if spec.Data.Path == "" {
		return nil, errors.New("the job does not say where its dataset lies: give --data with it, or leave out --job and --set to go on with the run as it is")
	}
	return launch.OpenSame(environment, f.train.run, spec)
}

// create creates a new run.
func (f coordinatorFlags) create(o outside, environment launch.Environment) (*launch.Run, error) {
	if f.train.job == "" && f.train.data == "" && len(f.train.set) == 0 {
		return nil, fmt.Errorf("coordinating a run: there is no run at %s to go on with: name one that exists, or begin one with --job and --data", f.train.run)
	}
	spec, err := f.train.jobSpec(o.fs)
	if err != nil {
		return nil, err
	}
	if spec.Data.Path == "" {
		return nil, errors.New("there is nothing to train on: give --data with a prepared dataset, or data.path in the job")
	}
	return launch.Create(environment, f.train.run, spec)
}

// maxWorkers bounds --workers.
const maxWorkers = 1024

func checkWorkers(n int) error {
	if n < 1 || n > maxWorkers {
		return fmt.Errorf("--workers is %d: must be between 1 and %d", n, maxWorkers)
	}
	return nil
}
