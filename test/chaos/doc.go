// Package chaos holds tests alone: whole jobs of the real programs, whose processes are
// killed, stopped and terminated and whose connections are cut at named points of the
// protocol, end in the bits of a job that nothing disturbed.
//
// Each worker reaches its server through a TCP proxy of the test, which takes the stream of
// NATS apart into messages. So the test knows what passes and strikes before a message of a
// kind is passed on, or after it, with nothing in the programs that helps. What is struck, where
// and how is drawn from a seed that is printed.
package chaos
