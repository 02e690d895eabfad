package natsbus

import (
	"fmt"

	"go.uber.org/zap"
)

// serverLog turns the server's log lines into ours. Its notices (a banner, settings) are our debug level.
type serverLog struct {
	log   *zap.SugaredLogger
	fatal chan string // of one: the first fatal line, which is the reason why a start failed
}

func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warnf(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Errorf(format, v...) }

// Fatalf keeps the line for StartServer's error and returns: the server must not end the process.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Debugf(format, v...)
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
