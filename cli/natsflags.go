package cli

import (
	"github.com/spf13/cobra"

	"andrea/launch"
)

// natsFlags say how a command reaches a NATS server.
type natsFlags struct{ remote launch.Remote }

// add adds the flags. creds is what --creds is for; nats what --nats is.
func (f *natsFlags) add(c *cobra.Command, nats, creds string) {
	flags := c.Flags()
	flags.StringVar(&f.remote.URL, "nats", "", nats+": nats://HOST:PORT or tls://HOST:PORT, several of a cluster joined by commas")
	flags.StringVar(&f.remote.Creds, "creds", "", creds)
	flags.StringVar(&f.remote.CA, "ca", "", "PEM file of the authority that vouches for the server at a tls:// URL (default: the system's; a run's key file names the certificate itself)")
	flags.BoolVar(&f.remote.Plaintext, "plaintext-network", false, "allow a nats:// URL of another machine: nothing is encrypted, anybody on the network between can read and change what passes")
}

// given reports that a server is named.
func (f *natsFlags) given() bool { return f.remote.URL != "" || f.remote.Creds != "" }

// othersCreds describes the files that let into a server of somebody else.
const othersCreds = "a .creds file (user JWT and seed), a file with an NKey user seed, or one with two lines 'user: NAME' and 'password: SECRET'"
