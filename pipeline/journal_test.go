package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"andrea/model"
	"andrea/pipeline"
)

// intent and commit are records of a step; extra values make them awkward.
func intent(step int64) pipeline.Intent {
	return pipeline.Intent{
		Step: step, Action: pipeline.ActionApply, LossSum: 2.5, Tokens: 2, GradNorm: 0.1, Scale: 0.5, LR: 1e-3,
		RootDigest: model.Digest{1, uint64(step)}, Epoch: 3,
		Leases: []pipeline.LeaseRecord{{
			Lo: 0, Hi: 1, Worker: "w", LossSums: []pipeline.Float{2.5}, GradDigest: model.Digest{4, 5}, TokenDigests: []model.Digest{{6, 7}},
		}},
	}
}

func commit(step int64) pipeline.CommitRecord {
	return pipeline.CommitRecord{
		Step: step, Loss: 1.25, GradNorm: 0.1, LR: 1e-3, Tokens: 2, Epoch: 3,
		StateDigest: model.Digest{8, uint64(step)}, Seconds: 0.25, TokensPerSecond: 8,
	}
}

// history writes whole steps, and with open the intent of one more.
func history(t testing.TB, steps int64, open bool) []byte {
	t.Helper()
	j, data := &pipeline.Journal{}, []byte(nil)
	add := func(line []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
	}
	for step := int64(1); step <= steps; step++ {
		add(j.AppendIntent(intent(step)))
		add(j.AppendCommit(commit(step)))
	}
	if open {
		add(j.AppendIntent(intent(steps + 1)))
	}
	return data
}

// rewritten is the journal as it would be written from its records.
func rewritten(t testing.TB, j *pipeline.Journal) []byte {
	t.Helper()
	again, data := &pipeline.Journal{}, []byte(nil)
	for _, r := range j.Steps {
		line, err := again.AppendIntent(r.Intent)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
		if r.Commit == nil {
			continue
		}
		if line, err = again.AppendCommit(*r.Commit); err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
		if again.CommitDigest(r.Intent.Step) != r.CommitDigest {
			t.Fatalf("step %d has another digest", r.Intent.Step)
		}
	}
	if again.LastDigest != j.LastDigest {
		t.Fatalf("the last digest is %s, was %s", again.LastDigest, j.LastDigest)
	}
	return data
}

func TestJournalGolden(t *testing.T) {
	j, data := &pipeline.Journal{}, []byte(nil)
	add := func(line []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
	}
	loss := pipeline.Float(3.5)
	skipped, last := intent(2), commit(2)
	skipped.Action, skipped.LossSum, skipped.GradNorm, skipped.Scale = pipeline.ActionSkip, pipeline.Float(math.NaN()), pipeline.Float(math.Inf(1)), 0
	skipped.Leases[0].LossSums[0] = pipeline.Float(math.Inf(-1))
	last.ValLoss, last.Loss = &loss, pipeline.Float(math.NaN())
	add(j.AppendIntent(intent(1)))
	add(j.AppendCommit(commit(1)))
	add(j.AppendIntent(skipped))
	add(j.AppendCommit(last))
	golden(t, "journal.jsonl", string(data))
	read, err := pipeline.ParseJournal(data)
	if err != nil || read.Last() != 2 || !bytes.Equal(rewritten(t, read), data) {
		t.Errorf("the journal does not read back: %v", err)
	}
	if r := read.Step(2); !math.IsNaN(float64(r.Intent.LossSum)) || !math.IsInf(float64(r.Intent.GradNorm), 1) || *r.Commit.ValLoss != 3.5 {
		t.Errorf("step 2 is %+v", r)
	}
	if read.Step(0) != nil || read.Step(3) != nil || read.CommitDigest(0) != "" || read.CommitDigest(3) != "" || read.CommitDigest(2) != read.LastDigest {
		t.Error("steps outside the journal are found, or the last digest is not the last record's")
	}
}

func TestAnyRecordRoundTrips(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		float := rapid.Custom(func(t *rapid.T) pipeline.Float {
			return pipeline.Float(math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
		})
		digest := rapid.Custom(func(t *rapid.T) model.Digest {
			return model.Digest{rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")}
		})
		i, c := intent(1), commit(1)
		i.LossSum, i.GradNorm, i.Scale, i.LR = float.Draw(rt, "loss"), float.Draw(rt, "norm"), rapid.Float32().Draw(rt, "scale"), rapid.Float32().Draw(rt, "lr")
		i.Tokens, i.Epoch, i.RootDigest = rapid.Int64().Draw(rt, "tokens"), rapid.Uint64().Draw(rt, "epoch"), digest.Draw(rt, "root")
		i.Leases[0].LossSums = rapid.SliceOf(float).Draw(rt, "losses")
		i.Leases[0].TokenDigests = rapid.SliceOf(digest).Draw(rt, "digests")
		i.Leases[0].Worker = rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(rt, "worker")
		c.Loss, c.ValLoss, c.StateDigest = float.Draw(rt, "mean"), rapid.Ptr(float, true).Draw(rt, "validation"), digest.Draw(rt, "state")
		c.Seconds = rapid.Float64Range(0, 1e9).Draw(rt, "seconds")
		j := &pipeline.Journal{}
		one, err := j.AppendIntent(i)
		if err != nil {
			rt.Fatal(err)
		}
		two, err := j.AppendCommit(c)
		if err != nil {
			rt.Fatal(err)
		}
		data := append(one, two...)
		read, err := pipeline.ParseJournal(data)
		if err != nil || read.LastDigest != j.LastDigest || !bytes.Equal(rewritten(t, read), data) {
			rt.Fatalf("%v\n%s", err, data)
		}
	})
}

// A crash may cut the file anywhere: whole lines are kept, the rest is counted.
func TestATornTailIsCountedAtEveryByte(t *testing.T) {
	data := history(t, 2, true)
	whole, err := pipeline.ParseJournal(data)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(data) + 1 {
		j, err := pipeline.ParseJournal(data[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		lines := bytes.Count(data[:cut], []byte("\n"))
		if torn := cut - 1 - bytes.LastIndexByte(data[:cut], '\n'); j.Torn != torn || j.Last() != int64(lines+1)/2 {
			t.Fatalf("cut at %d: torn %d, want %d; last step %d of %d lines", cut, j.Torn, torn, j.Last(), lines)
		}
		for i, r := range j.Steps {
			if !reflect.DeepEqual(r.Intent, whole.Steps[i].Intent) || r.Commit != nil && !reflect.DeepEqual(r.Commit, whole.Steps[i].Commit) {
				t.Fatalf("cut at %d: step %d differs", cut, i+1)
			}
		}
		if got := rewritten(t, j); !bytes.Equal(got, data[:cut-j.Torn]) {
			t.Fatalf("cut at %d: rewritten as\n%s", cut, got)
		}
	}
}

// A bit that flips in any line but the last is seen, in that line or, when the line
// still says something else that could be true, in the next.
func TestAFlippedBitIsSeen(t *testing.T) {
	data := history(t, 2, true)
	lastLine := bytes.LastIndexByte(data[:len(data)-1], '\n')
	for i := range lastLine {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1 << (i % 8)
		if damaged[i] == '\n' || data[i] == '\n' {
			continue // lines are joined or split: covered by the next test's cases
		}
		line := 1 + bytes.Count(data[:i], []byte("\n"))
		_, err := pipeline.ParseJournal(damaged)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d: ", line)) && !strings.Contains(err.Error(), fmt.Sprintf("line %d: ", line+1)) {
			t.Fatalf("byte %d of line %d: %v", i, line, err)
		}
	}
}

func TestDamageNamesItsLine(t *testing.T) {
	lines := strings.SplitAfter(string(history(t, 2, true)), "\n")
	join := func(l ...string) string { return strings.Join(l, "") }
	// first replaces text in the first line, whose chain begins with nothing.
	first := func(old, new string) string {
		if !strings.Contains(lines[0], old) {
			t.Fatalf("%q is not in %s", old, lines[0])
		}
		return strings.Replace(lines[0], old, new, 1)
	}
	secondIntent := strings.Replace(first(`"previous":""`, `"previous":"`+digestOfLine(t, lines[0])+`"`), `"step":1`, `"step":2`, 1)
	for _, c := range []struct{ name, data, want string }{
		{"a missing line", join(lines[0], lines[2]), "line 2: it follows the line with digest"},
		{"a missing first line", join(lines[1:]...), "line 1: it follows the line with digest"},
		{"a repeated line", join(lines[0], lines[1], lines[1]), "line 3: it follows the line with digest"},
		{"exchanged lines", join(lines[0], lines[1], lines[3], lines[2]), "line 3: it follows the line with digest"},
		{"a changed line", join(first(`"tokens":2`, `"tokens":3`), lines[1]), "line 2: it follows the line with digest"},
		{"another first step", first(`"step":1`, `"step":2`), "line 1: the intent of step 2 follows step 0"},
		{"an intent without the commit record before", join(lines[0], secondIntent), "line 2: the intent of step 2 follows step 1"},
		{"a commit record first", `{"kind":"commit","step":1,"previous":""}` + "\n", "line 1: "},
		{"an unknown kind", first(`"kind":"intent"`, `"kind":"vote"`), `line 1: kind is "vote": must be "intent" or "commit"`},
		{"an unknown field", first(`{`, `{"extra":1,`), `line 1: json: unknown field "extra"`},
		{"a missing field", first(`"tokens":2,`, ``), "line 1: from its byte"},
		{"a repeated field", first(`"tokens":2`, `"tokens":2,"tokens":2`), "line 1: from its byte"},
		{"null", first(`"tokens":2`, `"tokens":null`), "line 1: from its byte"},
		{"another spelling of a number", first(`"loss_sum":2.5`, `"loss_sum":2.50`), "line 1: from its byte"},
		{"another case", first(`"tokens"`, `"Tokens"`), "line 1: from its byte"},
		{"blanks", first(`"tokens":2`, `"tokens": 2`), "line 1: from its byte"},
		{"a carriage return", first("\n", "\r\n"), "line 1: from its byte"},
		{"bytes behind the object", first("}\n", "}x\n"), "line 1: "},
		{"no object", "[]\n", "line 1: it is no JSON object"},
		{"an empty line", join(lines[0], "\n"), "line 2: it is no JSON object"},
		{"zeros", join(lines[0], strings.Repeat("\x00", 512), "\n"), "line 2: it is no JSON object"},
		{"a wrong type", first(`"tokens":2`, `"tokens":"2"`), "line 1: "},
		{"a digest that is none", first(`"root_digest":"0`, `"root_digest":"x`), "line 1: reading a digest"},
		{"a line that is too long", strings.Repeat("x", pipeline.MaxJournalLine+1) + "\n", "line 1: it has more than 8388608 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := pipeline.ParseJournal([]byte(c.data))
			if err == nil || j != nil || !strings.Contains(err.Error(), "reading the journal: "+c.want) || !strings.Contains(err.Error(), "the file is damaged") {
				t.Errorf("error %.300v, want %q", err, c.want)
			}
		})
	}
}

// The steps whose lines nothing contradicts are told, whatever line shows the damage.
func TestDamageLeavesTheStepsBefore(t *testing.T) {
	lines := strings.SplitAfter(string(history(t, 4, false)), "\n")
	for _, c := range []struct {
		name, old, new     string
		at                 int // the line that is damaged, from 0
		line, kept, proved int
	}{
		{"no record", `"tokens"`, `"tokenz"`, 4, 5, 4, 2},
		{"no commit record", `"tokens"`, `"tokenz"`, 5, 6, 5, 2},
		{"another value, which the next line shows", `"tokens":2`, `"tokens":6`, 4, 6, 4, 2},
		{"another value in the first line", `"tokens":2`, `"tokens":6`, 0, 2, 0, 0},
	} {
		damaged := slices.Clone(lines)
		damaged[c.at] = strings.Replace(damaged[c.at], c.old, c.new, 1)
		j, err := pipeline.ReadJournal(strings.NewReader(strings.Join(damaged, "")))
		var damage *pipeline.JournalDamage
		if !errors.As(err, &damage) || damage.Line != c.line || damage.Kept != c.kept || damage.Proved() != int64(c.proved) || j.Last() != int64(c.line/2) {
			t.Errorf("%s: %v, %+v", c.name, err, damage)
		}
	}
}

// zeros is a sparse file: it never ends, and counts what was read of it.
type zeros struct{ read int }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.read += len(b)
	return len(b), nil
}

func TestNoMoreThanALineIsReadOfAFileWithoutLines(t *testing.T) {
	z := &zeros{}
	_, err := pipeline.ReadJournal(z)
	if err == nil || !strings.Contains(err.Error(), "line 1: it has more than 8388608 bytes") || z.read > pipeline.MaxJournalLine+1<<17 {
		t.Errorf("%d bytes were read: %v", z.read, err)
	}
	torn := strings.Repeat("x", pipeline.MaxJournalLine)
	if j, err := pipeline.ParseJournal([]byte(torn)); err != nil || j.Torn != len(torn) {
		t.Errorf("the longest torn line: %v", err)
	}
	if _, err := pipeline.ParseJournal([]byte(torn + "x")); err == nil {
		t.Error("a torn line that is too long is counted")
	}
	failed := errors.New("no disk")
	var damage *pipeline.JournalDamage
	if _, err := pipeline.ReadJournal(iotest.ErrReader(failed)); !errors.Is(err, failed) || errors.As(err, &damage) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// digestOfLine is the digest that the line after a journal's only line names.
func digestOfLine(t *testing.T, line string) string {
	j, err := pipeline.ParseJournal([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return j.LastDigest
}

// What does not follow is refused before it is written, and the journal stays usable.
func TestAWrongAppendChangesNothing(t *testing.T) {
	j := &pipeline.Journal{}
	if _, err := j.AppendIntent(intent(1)); err != nil {
		t.Fatal(err)
	}
	infinite := commit(1)
	infinite.Seconds = math.Inf(1)
	before := *j
	for name, try := range map[string]func() ([]byte, error){
		"the intent again":        func() ([]byte, error) { return j.AppendIntent(intent(1)) },
		"the next intent":         func() ([]byte, error) { return j.AppendIntent(intent(2)) },
		"a commit of another":     func() ([]byte, error) { return j.AppendCommit(commit(2)) },
		"a commit of none":        func() ([]byte, error) { return j.AppendCommit(commit(0)) },
		"what JSON cannot write":  func() ([]byte, error) { return j.AppendCommit(infinite) },
		"a commit of step -1":     func() ([]byte, error) { return j.AppendCommit(commit(-1)) },
		"an intent far ahead":     func() ([]byte, error) { return j.AppendIntent(intent(1 << 40)) },
		"an intent of step zero.": func() ([]byte, error) { return j.AppendIntent(intent(0)) },
	} {
		if line, err := try(); err == nil || line != nil || !strings.Contains(err.Error(), "writing a journal line") {
			t.Errorf("%s: %s, %v", name, line, err)
		}
		if !reflect.DeepEqual(*j, before) {
			t.Errorf("%s changed the journal", name)
		}
	}
	if _, err := j.AppendCommit(commit(1)); err != nil {
		t.Error(err)
	}
	if _, err := j.AppendCommit(commit(1)); err == nil {
		t.Error("the commit record could be appended twice")
	}
}

func FuzzParseJournal(f *testing.F) {
	whole := history(f, 2, true)
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(history(f, 0, true))
	f.Add([]byte(`{"kind":"commit"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := pipeline.ParseJournal(data)
		if err != nil {
			return
		}
		if got := rewritten(t, j); !bytes.Equal(got, data[:len(data)-j.Torn]) {
			t.Errorf("accepted\n%q\nbut rewritten as\n%q", data, got)
		}
	})
}
