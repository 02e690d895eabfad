package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andrea/watch"
)

// message is what tests look at in a shown line.
type message struct {
	TS      string `json:"ts"`
	Level   string `json:"level"`
	Process string `json:"process"`
	Msg     string `json:"msg"`
	Step    int    `json:"step"`
}

// messages are the lines that 'andrea logs --json' shows.
func (p place) messages(args ...string) (lines []message) {
	p.t.Helper()
	r := p.run("", append([]string{"logs", "demo", "--json"}, args...)...)
	if r.code != 0 || r.stderr != "" {
		p.t.Fatalf("%v: exit %d\n%s", args, r.code, r.stderr)
	}
	for line := range strings.Lines(r.stdout) {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			p.t.Fatalf("%v: %q: %v", args, line, err)
		}
		lines = append(lines, m)
	}
	return lines
}

func TestLogsOfACompleteRun(t *testing.T) {
	p := trained(t, 1)
	all := p.run("", "logs", "demo", "--json")
	p.sameAsFiles("runs/demo", all.stdout)
	if followed := p.run("", "logs", "-f", "demo", "--json"); followed.code != 0 || followed.stdout != all.stdout || followed.stderr != "" {
		t.Errorf("following it: exit %d, other lines, or\n%s", followed.code, followed.stderr)
	}
	count := func(keep func(message) bool) (n int) {
		for _, m := range p.messages() {
			if keep(m) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		args []string
		keep func(message) bool
	}{
		{[]string{"--process", "local"}, func(m message) bool { return m.Process == "local" }},
		{[]string{"--process", "local", "--process", "coordinator"}, func(message) bool { return true }},
		{[]string{"--level", "warn"}, func(m message) bool { return m.Level == "warn" || m.Level == "error" }},
		{[]string{"--step", "7"}, func(m message) bool { return m.Step == 7 }},
		{[]string{"--step", "5-10"}, func(m message) bool { return m.Step >= 5 && m.Step <= 10 }},
		{[]string{"--step", "5-10", "--process", "local"}, func(m message) bool { return m.Step >= 5 && m.Step <= 10 && m.Process == "local" }},
	} {
		got := p.messages(c.args...)
		for _, m := range got {
			if !c.keep(m) {
				t.Errorf("%v shows %+v", c.args, m)
			}
		}
		if want := count(c.keep); len(got) != want {
			t.Errorf("%v shows %d lines, want %d", c.args, len(got), want)
		}
	}
	waited := p.run("", "logs", "-f", "demo", "--process", "worker")
	if waited.code != 0 || waited.stdout != "" || !strings.Contains(waited.stderr, "coordinator, local") {
		t.Errorf("following a process that there is not: exit %d\n%s%s", waited.code, waited.stdout, waited.stderr)
	}
	for _, msg := range []string{watch.RunStarted, watch.RunEnded} { // by which following knows its end
		if n := count(func(m message) bool { return m.Process == watch.Coordinator && m.Msg == msg }); n != 1 {
			t.Errorf("%d lines say %q", n, msg)
		}
	}
	p.damageLogs()
}

// damageLogs checks that damage in the log files of a complete run is shown as such
// among the other lines.
func (p place) damageLogs() {
	p.t.Helper()
	const worker = "runs/demo/logs/local.jsonl"
	whole := p.run("", "logs", "demo").stdout
	before := p.read(worker)
	p.write(worker, strings.Repeat("x", 1<<20)+"\n"+"\x00\x1b[2J\n"+before+`{"ts":"20`)
	r := p.run("", "logs", "demo")
	if r.code != 0 || strings.Count(r.stdout, "  BAD  ") != 3 || strings.Contains(r.stdout, "\x1b") {
		p.t.Errorf("damaged lines: exit %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	for _, want := range []string{"longer than 65536 bytes: 1048576 bytes", "it has no end", "not JSON"} {
		if !strings.Contains(r.stdout, want) {
			p.t.Errorf("damage is not named %q:\n%s", want, r.stdout)
		}
	}
	for line := range strings.Lines(whole) {
		if !strings.Contains(r.stdout, line) {
			p.t.Errorf("lost among damaged lines: %s", line)
		}
	}
	if err := os.Mkdir(filepath.Join(p.dir, "runs/demo/logs/odd.jsonl"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if odd := p.run("", "logs", "demo"); odd.code != 1 || odd.stdout != r.stdout || !strings.Contains(odd.stderr, "odd.jsonl") {
		p.t.Errorf("a folder as a log: exit %d\n%s", odd.code, odd.stderr)
	}
}

func TestLogsRefusesBadUsage(t *testing.T) {
	p := newPlace(t)
	p.write("runs/demo/job.yaml", "")
	p.write("runs/demo/logs/local.jsonl", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nowhere"}, "nowhere"},
		{[]string{}, "no run is given"},
		{[]string{"demo", "--nats", "nats://127.0.0.1:1"}, "leave out"},
		{[]string{"--nats", "nats://192.0.2.1:4222"}, "--plaintext-network"},
		{[]string{"--nats", "tls://192.0.2.1:4222"}, "no credentials"},
		{[]string{"--creds", "nowhere.json"}, "nowhere.json"},
		{[]string{"demo", "--level", "loud"}, "loud"},
		{[]string{"demo", "--step", "5-3"}, "5-3"},
		{[]string{"demo", "--level", "loud", "--step", "x"}, `"x"`},
		{[]string{"demo", "--process", "nobody"}, "logs of: local"},
	} {
		r := p.run("", append([]string{"logs"}, c.args...)...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%v: exit %d, stdout %q\n%s", c.args, r.code, r.stdout, r.stderr)
		}
	}
}

// What a crash tore off stays alone in its line: the next life's lines are whole.
func TestATornLogLineDoesNotSpoilTheNext(t *testing.T) {
	p := newPlace(t)
	p.text()
	if r := p.run("before-rename:2", tiny...); r.code != -1 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	const log = "runs/demo/logs/coordinator.jsonl"
	torn := p.read(log)
	torn = torn[:len(torn)-9]
	p.write(log, torn)
	if r := p.run("", "resume", "demo"); r.code != 0 {
		t.Fatalf("resume: exit %d\n%s", r.code, r.stderr)
	}
	bad := p.messages("--level", "warn", "--process", "coordinator")
	if len(bad) == 0 || bad[0].Level != "damaged" {
		t.Errorf("the torn line is not shown: %+v", bad)
	}
	_, rest, _ := strings.Cut(p.read(log)[len(torn):], "\n")
	first, _, _ := strings.Cut(rest, "\n")
	if l := watch.Parse(watch.Coordinator, []byte(first)); l.Damage != "" || l.Seq != 1 {
		t.Errorf("the next life begins with %q: %s", first, l.Damage)
	}
}
