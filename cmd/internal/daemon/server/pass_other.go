//go:build !linux

package server

import (
	"errors"
	"net"
)

// Passed accepts the connections that another process sends. This system has none.
type Passed struct{}

// NewPassed returns an error: only Linux has daemons for all users.
func NewPassed(int) (*Passed, error) {
	return nil, errors.New("only Linux can run a daemon for all users")
}

// Ended blocks for ever.
func (*Passed) Ended() <-chan struct{} { return nil }

// Accept returns an error.
func (*Passed) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close does nothing.
func (*Passed) Close() error { return nil }

// Addr returns nil.
func (*Passed) Addr() net.Addr { return nil }
