package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"

	"andrea/pipeline"
)

// MaxControlBytes is the size up to which a control message is read.
const MaxControlBytes = 1 << 20

// Control is one control message with its sender's identity.
type Control struct {
	Generation  uint64            // of the coordinator; 0 in a hello
	Ticket      int64             // of the worker's membership; 0: it has none
	Worker      pipeline.WorkerID // that sends or receives
	Incarnation string            // of that worker
	Message     pipeline.Message
}

// envelope is a control message as JSON.
type envelope struct {
	Kind        string          `json:"kind"`
	Generation  uint64          `json:"generation"`
	Ticket      int64           `json:"ticket"`
	Worker      string          `json:"worker"`
	Incarnation string          `json:"incarnation"`
	Body        json.RawMessage `json:"body"`
}

// kind is one kind of message: its name on the wire and how its body is decoded.
type kind struct {
	name   string
	of     reflect.Type
	decode func(json.RawMessage) (pipeline.Message, error)
}

// kinds are the whole protocol.
var kinds = []kind{
	kindOf[pipeline.Hello]("hello"),
	kindOf[pipeline.Welcome]("welcome"),
	kindOf[pipeline.Wait]("wait"),
	kindOf[pipeline.Rejoin]("rejoin"),
	kindOf[pipeline.Refuse]("refuse"),
	kindOf[pipeline.Joined]("joined"),
	kindOf[pipeline.Lease]("lease"),
	kindOf[pipeline.Cancel]("cancel"),
	kindOf[pipeline.Answer]("answer"),
	kindOf[pipeline.Commit]("commit"),
	kindOf[pipeline.Applied]("applied"),
	kindOf[pipeline.Eval]("eval"),
	kindOf[pipeline.Evaluated]("evaluated"),
	kindOf[pipeline.Snapshot]("snapshot"),
	kindOf[pipeline.SnapshotTaken]("copied"),
	kindOf[pipeline.Heartbeat]("heartbeat"),
	kindOf[pipeline.Leaving]("leaving"),
	kindOf[pipeline.Finish]("finish"),
	kindOf[pipeline.Failed]("failed"),
}

func kindOf[M pipeline.Message](name string) kind {
	return kind{name: name, of: reflect.TypeFor[M](), decode: decode[M]}
}

// findKind returns the first kind that fits; false when none does.
func findKind(fits func(kind) bool) (kind, bool) {
	i := slices.IndexFunc(kinds, fits)
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

func decode[M pipeline.Message](body json.RawMessage) (pipeline.Message, error) {
	var m M
	if err := strict(body, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// strict decodes one JSON object and refuses unknown fields and trailing bytes.
func strict(data []byte, v any) error {
	if len(data) == 0 || data[0] != '{' {
		return errors.New("it is no JSON object") // null would pass as a message of zeros
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the object")
	}
	return nil
}

// EncodeControl writes a control message.
func EncodeControl(c Control) ([]byte, error) {
	k, known := findKind(func(k kind) bool { return k.of == reflect.TypeOf(c.Message) })
	if !known {
		return nil, fmt.Errorf("encoding a message: %T is not part of the protocol", c.Message)
	}
	body, err := json.Marshal(c.Message)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s message: %w", k.name, err)
	}
	return json.Marshal(envelope{Kind: k.name, Generation: c.Generation, Ticket: c.Ticket, Worker: string(c.Worker), Incarnation: c.Incarnation, Body: body})
}

// idRule is what a worker and its incarnation may be called; both become parts of
// subjects.
var idRule = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// DecodeControl reads a control message.
func DecodeControl(data []byte) (Control, error) {
	fail := func(err error) (Control, error) {
		return Control{}, fmt.Errorf("decoding a control message of %d bytes: %w", len(data), err)
	}
	if len(data) > MaxControlBytes {
		return fail(fmt.Errorf("at most %d are read", MaxControlBytes))
	}
	var e envelope
	if err := strict(data, &e); err != nil {
		return fail(err)
	}
	if !idRule.MatchString(e.Worker) || !idRule.MatchString(e.Incarnation) {
		return fail(fmt.Errorf("worker %.70q or incarnation %.70q is not made of a-z, 0-9 and -", e.Worker, e.Incarnation))
	}
	if e.Ticket < 0 {
		return fail(fmt.Errorf("ticket %d is negative", e.Ticket))
	}
	k, known := findKind(func(k kind) bool { return k.name == e.Kind })
	if !known {
		return fail(fmt.Errorf("kind %.20q is unknown", e.Kind))
	}
	m, err := k.decode(e.Body)
	if welcome, ok := m.(pipeline.Welcome); ok && err == nil {
		err = checkHolders(welcome.Holders)
	}
	if err != nil {
		return fail(fmt.Errorf("body of kind %s: %w", e.Kind, err))
	}
	return Control{Generation: e.Generation, Ticket: e.Ticket, Worker: pipeline.WorkerID(e.Worker), Incarnation: e.Incarnation, Message: m}, nil
}

func checkHolders(holders []pipeline.WorkerID) error {
	for _, h := range holders {
		if !idRule.MatchString(string(h)) {
			return fmt.Errorf("holder %.70q is not made of a-z, 0-9 and -", h)
		}
	}
	return nil
}
