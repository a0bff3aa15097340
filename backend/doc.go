// Package backend has one module for each server that Records can be sent to.
//
//	postgres/  a table for each kind of row, with migrations
//	nats/      a JetStream stream
//
// Both implement the interface of internal/forward, which sends each Record once. Choosing and configuring
// a server is in cmd/internal/daemon/forwarding. Start in internal/forward/forward.go. This package is
// not an API; it has no code.
package backend
