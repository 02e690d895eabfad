// Package natsbus is the transport over NATS: an embedded server for runs on one machine, and
// connections to it or to an external server. Only core NATS is used, at most once and without
// memory; transport.Bus says what that promises.
//
// A process opens two connections, control and bulk, so that a heartbeat never queues behind
// megabytes of gradients.
package natsbus
