package pipeline

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"andrea/model"
)

// The two kinds of journal lines.
const (
	kindIntent = "intent"
	kindCommit = "commit"
)

// What a step does to the state.
const (
	ActionApply = "apply"
	ActionSkip  = "skip" // the loss or gradient was not finite: the state stays as it is
)

// Intent is the decision on a step, made durable before anybody acts on it.
type Intent struct {
	Kind       string        `json:"kind"`
	Step       int64         `json:"step"`
	Action     string        `json:"action"`
	LossSum    Float         `json:"loss_sum"` // nats
	Tokens     int64         `json:"tokens"`
	GradNorm   Float         `json:"grad_norm"` // of the mean gradient, before clipping
	Scale      float32       `json:"scale"`     // clip factor / tokens
	LR         float32       `json:"lr"`
	RootDigest model.Digest  `json:"root_digest"`
	Epoch      uint64        `json:"epoch"` // of the step's first window
	Leases     []LeaseRecord `json:"leases"`
	Previous   string        `json:"previous"` // SHA-256 of the line before; empty for the first
}

// LeaseRecord says who computed which lanes, and from which token ids.
type LeaseRecord struct {
	Lo           int            `json:"lo"` // lanes [lo, hi)
	Hi           int            `json:"hi"`
	Worker       string         `json:"worker"`
	LossSums     []Float        `json:"loss_sums"`     // by lane
	GradDigest   model.Digest   `json:"grad_digest"`   // of the contribution
	TokenDigests []model.Digest `json:"token_digests"` // by lane, of the ids as the worker received them
}

// CommitRecord closes a step: its intent was applied and gave this state. It
// repeats the plain fields that people plot.
type CommitRecord struct {
	Kind            string       `json:"kind"`
	Step            int64        `json:"step"`
	Loss            Float        `json:"loss"` // nats per token
	ValLoss         *Float       `json:"val_loss,omitempty"`
	GradNorm        Float        `json:"grad_norm"`
	LR              float32      `json:"lr"`
	Tokens          int64        `json:"tokens"`
	Epoch           uint64       `json:"epoch"`
	StateDigest     model.Digest `json:"state_digest"`
	Seconds         float64      `json:"seconds"` // since the step before, or since training began
	TokensPerSecond float64      `json:"tokens_per_second"`
	Previous        string       `json:"previous"`
}

// differences collects how two records differ.
type differences []string

func (d *differences) add(name string, same bool, now, recorded any) {
	if !same {
		*d = append(*d, fmt.Sprintf("%s is %v, recorded %v", name, now, recorded))
	}
}

func (d differences) String() string { return strings.Join(d, ", ") }

// difference says how i differs from the recorded intent of the same step in what
// decides bits; empty if it does not. Who computed which lanes decides none.
func (i Intent) difference(o Intent) string {
	var d differences
	d.add("action", i.Action == o.Action, i.Action, o.Action)
	d.add("loss_sum", i.LossSum.same(o.LossSum), i.LossSum, o.LossSum)
	d.add("tokens", i.Tokens == o.Tokens, i.Tokens, o.Tokens)
	d.add("grad_norm", i.GradNorm.same(o.GradNorm), i.GradNorm, o.GradNorm)
	d.add("scale", i.Scale == o.Scale, i.Scale, o.Scale)
	d.add("lr", i.LR == o.LR, i.LR, o.LR)
	d.add("root_digest", i.RootDigest == o.RootDigest, i.RootDigest, o.RootDigest)
	d.add("epoch", i.Epoch == o.Epoch, i.Epoch, o.Epoch)
	return d.String()
}

// difference is the same for commit records: the state and the validation loss.
func (c CommitRecord) difference(o CommitRecord) string {
	var d differences
	d.add("state_digest", c.StateDigest == o.StateDigest, c.StateDigest, o.StateDigest)
	now, recorded := Float(math.NaN()), Float(math.NaN())
	if c.ValLoss != nil {
		now = *c.ValLoss
	}
	if o.ValLoss != nil {
		recorded = *o.ValLoss
	}
	d.add("val_loss", (c.ValLoss == nil) == (o.ValLoss == nil) && now.same(recorded), now, recorded)
	return d.String()
}

// Recorded is what the journal holds of one step.
type Recorded struct {
	Intent       Intent
	Commit       *CommitRecord // nil: the run ended between intent and record
	CommitDigest string        // SHA-256 of the commit record's line
}

// Journal is a run's history: step i is Steps[i-1].
type Journal struct {
	Steps      []Recorded
	LastDigest string // SHA-256 of the last line; empty without lines
	Bytes      int64  // of the whole lines that were read
	Torn       int    // bytes behind them, of a last line that was not written whole
}

// Last is the newest step that has an intent.
func (j *Journal) Last() int64 { return int64(len(j.Steps)) }

// Step returns what is recorded of step s, or nil.
func (j *Journal) Step(s int64) *Recorded {
	if s < 1 || s > j.Last() {
		return nil
	}
	return &j.Steps[s-1]
}

// CommitDigest returns the digest of the commit record of step s, "" if there is
// none. Step 0, before training, has none.
func (j *Journal) CommitDigest(s int64) string {
	if r := j.Step(s); r != nil {
		return r.CommitDigest
	}
	return ""
}

// MaxJournalLine is the longest line that is read, in bytes.
const MaxJournalLine = 8 << 20

// lineDigest identifies a journal line, without its newline.
func lineDigest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// JournalDamage is the error of a journal with a line that cannot follow the ones before it.
type JournalDamage struct {
	Line int // its number, from 1
	Kept int // lines before it that what follows them confirms, or nothing contradicts
	Err  error
}

// Error implements error.
func (d *JournalDamage) Error() string {
	return fmt.Sprintf("reading the journal: line %d: %v: the file is damaged: restore it from a copy", d.Line, d.Err)
}

// Unwrap returns what is wrong with the line.
func (d *JournalDamage) Unwrap() error { return d.Err }

// Proved is the last step that the kept lines hold whole.
func (d *JournalDamage) Proved() int64 { return int64(d.Kept / 2) } // two lines a step

// errChain says that a line does not name the digest of the one before it, so one of the two is damaged.
var errChain = errors.New("it follows another line")

// chainError is an error that wraps errChain and does not say so.
type chainError struct{ error }

func (chainError) Is(target error) bool { return target == errChain }

// ParseJournal is ReadJournal of a file's bytes, without a journal when anything is wrong.
func ParseJournal(data []byte) (*Journal, error) {
	j, err := ReadJournal(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return j, nil
}

// ReadJournal reads a journal line by line: whole lines, each naming the digest of the one
// before, an intent and a commit record for every step from 1 on. What follows the
// last newline was torn by a crash and is counted, not read. Anything else that is
// wrong with a line is a JournalDamage; the journal then ends before that line. No more than one line,
// of at most MaxJournalLine bytes, is held besides the journal.
func ReadJournal(r io.Reader) (*Journal, error) {
	j, lines := &Journal{}, bufio.NewReaderSize(r, 1<<16)
	var line []byte
	for number := 1; ; number++ {
		whole, err := readLine(lines, &line)
		if err == nil && !whole {
			j.Torn = len(line)
			return j, nil
		}
		if errors.Is(err, errLongLine) {
			return j, &JournalDamage{Line: number, Kept: number - 1, Err: err}
		}
		if err != nil {
			return j, fmt.Errorf("reading the journal: line %d: %w", number, err)
		}
		if err := j.add(line); err != nil {
			kept := number - 1
			if errors.Is(err, errChain) {
				kept = max(0, kept-1)
			}
			return j, &JournalDamage{Line: number, Kept: kept, Err: err}
		}
		j.Bytes += int64(len(line)) + 1
	}
}

var errLongLine = fmt.Errorf("it has more than %d bytes, which is the most that is read", MaxJournalLine)

// readLine puts the next line, without its newline, into *line, whose bytes it uses again. whole is false
// for what follows the last newline, which may be nothing.
func readLine(r *bufio.Reader, line *[]byte) (whole bool, err error) {
	*line = (*line)[:0]
	for {
		part, err := r.ReadSlice('\n')
		if len(*line)+len(part) > MaxJournalLine+1 {
			return false, errLongLine
		}
		*line = append(*line, part...)
		switch {
		case err == nil:
			*line = (*line)[:len(*line)-1]
			return true, nil
		case err == io.EOF && len(*line) <= MaxJournalLine:
			return false, nil
		case err == io.EOF:
			return false, errLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return false, err
		}
	}
}

// add appends one line.
func (j *Journal) add(line []byte) error {
	if len(line) > MaxJournalLine {
		return fmt.Errorf("it has %d bytes: at most %d are read", len(line), MaxJournalLine)
	}
	var head struct {
		Kind     string `json:"kind"`
		Step     int64  `json:"step"`
		Previous string `json:"previous"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	if head.Previous != j.LastDigest {
		return chainError{fmt.Errorf("it follows the line with digest %.12q, but that line has %.12q", head.Previous, j.LastDigest)}
	}
	if err := j.addKind(head.Kind, line); err != nil {
		return err
	}
	j.LastDigest = lineDigest(line)
	return nil
}

func (j *Journal) addKind(kind string, line []byte) error {
	switch kind {
	case kindIntent:
		var i Intent
		if err := canonicalJSON(line, &i); err != nil {
			return err
		}
		if last := j.Step(j.Last()); i.Step != j.Last()+1 || last != nil && last.Commit == nil {
			return fmt.Errorf("the intent of step %d follows step %d", i.Step, j.Last())
		}
		j.Steps = append(j.Steps, Recorded{Intent: i})
	case kindCommit:
		var c CommitRecord
		if err := canonicalJSON(line, &c); err != nil {
			return err
		}
		last := j.Step(c.Step)
		if last == nil || c.Step != j.Last() || last.Commit != nil {
			return fmt.Errorf("the commit record of step %d follows step %d", c.Step, j.Last())
		}
		last.Commit, last.CommitDigest = &c, lineDigest(line)
	default:
		return fmt.Errorf("kind is %.20q: must be %q or %q", kind, kindIntent, kindCommit)
	}
	return nil
}

// canonicalJSON decodes one object that was encoded from a value of the same type.
// Whatever does not encode to the same bytes again is refused: unknown, missing and
// repeated fields, other spellings of a value, trailing bytes. So a damaged line does
// not pass as a record with zeros in it; and a field that a later version adds must be
// left out while it is empty, as val_loss is, so that older journals stay readable.
func canonicalJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	again, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		at := 0
		for at < min(len(again), len(data)) && again[at] == data[at] {
			at++
		}
		return fmt.Errorf("from its byte %d on it is not as this program writes such a record", at+1)
	}
	return nil
}

// AppendIntent adds an intent to the journal and returns its line with the newline.
func (j *Journal) AppendIntent(i Intent) ([]byte, error) {
	i.Kind, i.Previous = kindIntent, j.LastDigest
	return j.appendLine(i)
}

// AppendCommit adds a commit record and returns its line with the newline.
func (j *Journal) AppendCommit(c CommitRecord) ([]byte, error) {
	c.Kind, c.Previous = kindCommit, j.LastDigest
	return j.appendLine(c)
}

func (j *Journal) appendLine(record any) ([]byte, error) {
	line, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("writing a journal line: %w", err)
	}
	if err := j.add(line); err != nil {
		return nil, fmt.Errorf("writing a journal line: %w", err)
	}
	return append(line, '\n'), nil
}
