//go:build !linux && !darwin

package client

// Ask returns an error: on this system the client cannot check which user listens on a socket.
func Ask(string, *Question) (*Answer, error) { return nil, errAbsent }
