package natsbus

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logOf makes a logger that calls back with every message.
func logOf(call func(message string)) *zap.Logger {
	core := zapcore.NewNopCore()
	return zap.New(zapcore.RegisterHooks(watched{core}, func(e zapcore.Entry) error {
		call(e.Message)
		return nil
	}))
}

// watched is a core that accepts every entry and writes none.
type watched struct{ zapcore.Core }

func (w watched) Enabled(zapcore.Level) bool        { return true }
func (w watched) With([]zapcore.Field) zapcore.Core { return w }
func (w watched) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, w)
}
