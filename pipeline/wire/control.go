package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"andrea/pipeline"
)

// MaxControlBytes is the size up to which a control message is read.
const MaxControlBytes = 1 << 20

// Control is one control message with its sender's identity.
type Control struct {
	Generation  uint64            // of the coordinator; 0 in a hello
	Worker      pipeline.WorkerID // that sends or receives
	Incarnation string            // of that worker
	Message     pipeline.Message
}

// envelope is a control message as JSON.
type envelope struct {
	Kind        string          `json:"kind"`
	Generation  uint64          `json:"generation"`
	Worker      string          `json:"worker"`
	Incarnation string          `json:"incarnation"`
	Body        json.RawMessage `json:"body"`
}

// kinds decodes the body of every message by its kind.
var kinds = map[string]func(json.RawMessage) (pipeline.Message, error){
	"hello":     decode[pipeline.Hello],
	"welcome":   decode[pipeline.Welcome],
	"refuse":    decode[pipeline.Refuse],
	"joined":    decode[pipeline.Joined],
	"lease":     decode[pipeline.Lease],
	"cancel":    decode[pipeline.Cancel],
	"answer":    decode[pipeline.Answer],
	"commit":    decode[pipeline.Commit],
	"applied":   decode[pipeline.Applied],
	"eval":      decode[pipeline.Eval],
	"evaluated": decode[pipeline.Evaluated],
	"snapshot":  decode[pipeline.Snapshot],
	"copied":    decode[pipeline.SnapshotTaken],
	"heartbeat": decode[pipeline.Heartbeat],
	"finish":    decode[pipeline.Finish],
	"failed":    decode[pipeline.Failed],
}

// kindOf names the message.
func kindOf(m pipeline.Message) (string, error) {
	switch m.(type) {
	case pipeline.Hello:
		return "hello", nil
	case pipeline.Welcome:
		return "welcome", nil
	case pipeline.Refuse:
		return "refuse", nil
	case pipeline.Joined:
		return "joined", nil
	case pipeline.Lease:
		return "lease", nil
	case pipeline.Cancel:
		return "cancel", nil
	case pipeline.Answer:
		return "answer", nil
	case pipeline.Commit:
		return "commit", nil
	case pipeline.Applied:
		return "applied", nil
	case pipeline.Eval:
		return "eval", nil
	case pipeline.Evaluated:
		return "evaluated", nil
	case pipeline.Snapshot:
		return "snapshot", nil
	case pipeline.SnapshotTaken:
		return "copied", nil
	case pipeline.Heartbeat:
		return "heartbeat", nil
	case pipeline.Finish:
		return "finish", nil
	case pipeline.Failed:
		return "failed", nil
	}
	return "", fmt.Errorf("encoding a message: %T is not part of the protocol", m)
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
	kind, err := kindOf(c.Message)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(c.Message)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s message: %w", kind, err)
	}
	return json.Marshal(envelope{Kind: kind, Generation: c.Generation, Worker: string(c.Worker), Incarnation: c.Incarnation, Body: body})
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
	decodeBody, known := kinds[e.Kind]
	if !known {
		return fail(fmt.Errorf("kind %.20q is unknown", e.Kind))
	}
	m, err := decodeBody(e.Body)
	if err != nil {
		return fail(fmt.Errorf("body of kind %s: %w", e.Kind, err))
	}
	return Control{Generation: e.Generation, Worker: pipeline.WorkerID(e.Worker), Incarnation: e.Incarnation, Message: m}, nil
}
