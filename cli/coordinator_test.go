package cli

import (
	"errors"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/pipeline"
)

// What a coordinator is told of a run that exists is taken or refused, never passed over,
// and of a complete one it says so.
func TestACoordinatorOfARunThatExists(t *testing.T) {
	p := trained(t, 1)
	before := contents(t, p.dir)
	for _, c := range []struct{ flags, want string }{
		{"--set steps=30", "leave out --job and --set"},
		{"--job runs/demo/job.yaml --set steps=30", "became 30"},
		{"--job nowhere.yaml", "nowhere.yaml"},
	} {
		r := p.run("", append([]string{"coordinator", "--run", "runs/demo"}, strings.Fields(c.flags)...)...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit %d\n%s", c.flags, r.code, r.stderr)
		}
	}
	if contents(t, p.dir) != before {
		t.Error("a refused coordinator has changed something")
	}
	for _, flags := range []string{"", "--job runs/demo/job.yaml"} {
		r := p.run("", append([]string{"coordinator", "--run", "runs/demo"}, strings.Fields(flags)...)...)
		if r.code != 0 || !strings.Contains(r.stderr, "is complete") {
			t.Errorf("a complete run %s: exit %d\n%s", flags, r.code, r.stderr)
		}
	}
}

// What to type next is the command that the run's workers are waiting for, or nothing.
func TestHowToGoOn(t *testing.T) {
	f := coordinatorFlags{workers: 2}
	f.train.run = "runs/big"
	if got := f.again("tokens/x"); !strings.HasSuffix(got, " resume runs/big --data tokens/x") {
		t.Errorf("on its own server: %s", got)
	}
	f.nats.remote = launch.Remote{URL: "tls://nats:4222", Creds: "c.txt"}
	if got := f.again(""); !strings.HasSuffix(got, " coordinator --run runs/big --nats tls://nats:4222 --creds c.txt --workers 2") {
		t.Errorf("on somebody else's: %s", got)
	}
	for outcome, want := range map[*pipeline.Outcome]bool{
		{Stopped: "SIGTERM"}: true, {Err: errors.New("no space left")}: true, {Complete: true}: false,
		{Err: errors.Join(nil, launch.SupersededError{})}: false,
	} {
		if got := goesOn(*outcome); got != want {
			t.Errorf("%+v: goes on: %v", *outcome, got)
		}
	}
}
