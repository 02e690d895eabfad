package k8s

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"
)

// verbatim is how the official chart is told to write a value without quotes, such as a variable.
var verbatim = regexp.MustCompile(`"<< (\S+) >>"`)

// The values for the official chart give a configuration that the server takes, and its users may do what those of
// docs/nats/server.conf may, with which runs are tested.
func TestNATSValues(t *testing.T) {
	for _, variable := range []string{"COORDINATOR", "WORKERS", "OBSERVER", "ANDREA_COORDINATOR_PASSWORD", "ANDREA_WORKER_1_PASSWORD", "ANDREA_WORKERS_PASSWORD", "ANDREA_OBSERVER_PASSWORD"} {
		t.Setenv(variable, "password-of-"+variable)
	}
	text, err := os.ReadFile("components/external-nats/nats-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config struct{ Merge map[string]any }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	e := json.NewEncoder(&config)
	e.SetEscapeHTML(false)
	if err := e.Encode(values.Config.Merge); err != nil {
		t.Fatal(err)
	}
	got := users(t, verbatim.ReplaceAllString(config.String(), "$1"))
	documented, err := os.ReadFile("../docs/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	want := users(t, tlsBlock.ReplaceAllString(string(documented), ""))
	if len(got) != 3 {
		t.Errorf("there are %d users, want 3", len(got))
	}
	for name, user := range got {
		if want[name] == nil || !reflect.DeepEqual(user.Permissions, want[name].Permissions) {
			t.Errorf("%s may do other things than in docs/nats/server.conf", name)
		}
		if user.Password == "" || user.Password[0] == '$' || user.Password[0] == '<' {
			t.Errorf("the password of %s is %q", name, user.Password)
		}
	}
}

// tlsBlock names certificates that are not there.
var tlsBlock = regexp.MustCompile(`(?s)tls \{.*?\n\}`)

// users are those of a server's configuration.
func users(t *testing.T, config string) map[string]*server.User {
	t.Helper()
	var o server.Options
	if err := o.ProcessConfigString(config); err != nil {
		t.Fatalf("the server does not take the configuration: %v\n%s", err, config)
	}
	named := map[string]*server.User{}
	for _, user := range o.Users {
		named[user.Username] = user
	}
	return named
}
