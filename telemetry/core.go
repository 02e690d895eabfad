package telemetry

import (
	"encoding/json"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"
)

const (
	// maxBody caps message and fields of a line in bytes, so that a line with what stands before them
	// stays below 64 KiB.
	maxBody = 63 << 10
	// keptMessage and keptFields are how many bytes of a longer line remain. Escaped, a byte takes up to
	// six: both together stay below maxBody.
	keptMessage = 4 << 10
	keptFields  = 4 << 10
)

// core gives zap's entries to a Log.
type core struct {
	zapcore.LevelEnabler
	encoder zapcore.Encoder // holds the fields of With
	log     *Log
}

// newEncoder makes the encoder of message and fields; what else is in a line is the Log's business.
func newEncoder() zapcore.Encoder {
	return zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		MessageKey:          "msg",
		SkipLineEnding:      true,
		EncodeTime:          zapcore.RFC3339NanoTimeEncoder,
		EncodeDuration:      zapcore.StringDurationEncoder,
		NewReflectedEncoder: newReflectedEncoder,
	})
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	clone := &core{LevelEnabler: c.LevelEnabler, encoder: c.encoder.Clone(), log: c.log}
	for _, field := range renamed(fields) {
		field.AddTo(clone.encoder)
	}
	return clone
}

// Check implements zapcore.Core.
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	buffer, err := c.encoder.EncodeEntry(entry, renamed(fields))
	if err != nil {
		return err
	}
	defer buffer.Free()
	body := buffer.Bytes()
	if len(body) > maxBody {
		if body, err = shortened(entry.Message, body); err != nil {
			return err
		}
	}
	if err := c.log.write(entry.Time, entry.Level, body); err != nil {
		return err
	}
	if entry.Level > zapcore.ErrorLevel { // the process is about to end
		return c.Sync()
	}
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return c.log.Sync() }

// shortened is the body of a line that is too long: how long it was and how message and fields begin.
func shortened(message string, body []byte) ([]byte, error) {
	fields := string(body)
	if start, err := json.Marshal(message); err == nil {
		fields = strings.TrimPrefix(fields, `{"msg":`+string(start)+`,`)
	}
	return json.Marshal(struct {
		Msg       string `json:"msg"`
		Truncated int    `json:"truncated"`
		Fields    string `json:"fields"`
	}{beginning(message, keptMessage), len(body), beginning(fields, keptFields)})
}

// beginning is at most the first n bytes of a text, without half a character at the end.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// headKeys are the keys that every line begins with.
var headKeys = []string{"ts", "level", "run", "process", "seq", "msg"}

// renamed gives fields whose key would shadow one of a line's own another one: "seq" becomes "seq_".
func renamed(fields []zapcore.Field) []zapcore.Field {
	copied := false
	for i := range fields {
		if !slices.Contains(headKeys, fields[i].Key) {
			continue
		}
		if !copied {
			fields, copied = slices.Clone(fields), true
		}
		fields[i].Key += "_"
	}
	return fields
}
