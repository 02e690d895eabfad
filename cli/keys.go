package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/vfs"
)

// maxCertificateBytes caps what is read of a certificate's file.
const maxCertificateBytes = 1 << 20

func keysCommand(o outside) *cobra.Command {
	var run, out, address, cert string
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make the keys of a run before its coordinator starts",
		Long: `Make the keys of a run before its coordinator starts.

A coordinator makes keys by itself. Where workers must have theirs before it has ever
run, as Secrets of a cluster, this command writes three files of mode 0600:
server.json with all keys for 'coordinator --keys', worker.json for any number of
workers, observer.json for 'status' and 'logs'. Every worker that comes with worker.json makes
a key of its own, which that one admits, so none can pose as another.`,
		Example: `  andrea keys --run big --out secrets --address tls://coordinator:4222 --tls-cert tls.crt
  andrea coordinator --job job.yaml --run runs/big --listen 0.0.0.0:4222 --tls-cert tls.crt --tls-key tls.key --keys secrets/server.json
  andrea worker --creds secrets/worker.json`,
		Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			if run == "" || out == "" {
				return badInput(errors.New("making keys: name the run with --run and a folder for the files with --out"))
			}
			var certificate []byte
			if cert != "" {
				var err error
				if certificate, err = vfs.ReadFile(o.fs, cert, maxCertificateBytes); err != nil {
					return badInput(fmt.Errorf("reading the server's certificate: %w", err))
				}
			}
			return badInput(launch.MakeKeys(o.fs, out, run, address, certificate))
		},
	}
	flags := c.Flags()
	flags.StringVar(&run, "run", "", "name of the run: the job's")
	flags.StringVar(&out, "out", "", "folder to write the files to")
	flags.StringVar(&address, "address", "", "URL at which workers and observers find the server (default: they are told with --nats)")
	flags.StringVar(&cert, "tls-cert", "", "PEM file of the server's certificate: the only one that workers and observers accept")
	return c
}
