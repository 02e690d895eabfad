// Package telemetry writes a process's log: one JSON object a line, to a file and to whoever listens on
// the bus, through zap.
//
// Every line begins with the same six keys,
//
//	{"ts":"2026-01-02T03:04:05.678Z","level":"info","run":"demo","process":"worker","seq":7,"msg":"…",…}
//
// ts is UTC. seq counts the lines of one life of a process from 1, in the file and on the bus alike: a
// line that a reader misses shows as a gap, a new life as a 1. The file has all lines; the bus may drop
// some when it is slow or cut off, never holding up the process. Numbers that JSON lacks are the
// strings "NaN", "+Inf" and "-Inf", wherever they stand.
package telemetry
