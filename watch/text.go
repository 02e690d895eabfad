package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// AppendText appends a line for people, with its newline: time (UTC), level, process, message, fields.
// What could move a terminal's cursor or change its colours is written as an escape.
func AppendText(dst []byte, l Line) []byte {
	if l.Damage != "" {
		dst = fmt.Appendf(dst, "%-23s  %-5s  %-11s  %s", "(no time)", "BAD", visible(l.Process), visible(l.Damage))
		if l.Bytes > 0 {
			dst = fmt.Appendf(dst, ": %d bytes, beginning with %q", l.Bytes, l.Raw)
		}
		return append(dst, '\n')
	}
	dst = fmt.Appendf(dst, "%s  %-5s  %-11s  %s", l.Time.UTC().Format("2006-01-02 15:04:05.000"),
		strings.ToUpper(l.Level.String()), visible(l.Process), visible(l.Msg))
	for _, f := range l.Fields {
		dst = fmt.Appendf(dst, "  %s=%s", word(f.Key), value(f.Value))
	}
	return append(dst, '\n')
}

// AppendJSON appends a line for programs, with its newline: as it was written; of a damaged one an
// object that says so.
func AppendJSON(dst []byte, l Line) []byte {
	if l.Damage == "" {
		return append(append(dst, l.Raw...), '\n')
	}
	data, err := json.Marshal(struct {
		Level   string `json:"level"`
		Process string `json:"process"`
		Msg     string `json:"msg"`
		Bytes   int    `json:"bytes"`
		Text    string `json:"text"`
	}{"damaged", l.Process, l.Damage, l.Bytes, string(l.Raw)})
	if err != nil {
		panic("watch: texts and a number are always JSON: " + err.Error())
	}
	return append(append(dst, data...), '\n')
}

// value writes a field's value: texts without quotes where that is clear.
func value(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil && len(v) > 0 && v[0] == '"' {
		return word(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, v) != nil {
		return strconv.Quote(string(v))
	}
	return visible(compact.String())
}

// word writes a text that ends at a blank.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"") {
		return strconv.Quote(s)
	}
	return visible(s)
}

// visible writes characters that do not print as escapes.
func visible(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
