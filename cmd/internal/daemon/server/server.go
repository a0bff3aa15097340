package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// writeTime is how long a client may take to accept the reply to an event.
const writeTime = 5 * time.Second

// A Server serves the routes of openapi.yaml.
type Server struct {
	http  *http.Server
	conns sync.WaitGroup

	mu     sync.Mutex
	silent map[net.Conn]struct{} // no request was read from them yet
	ending bool
}

// NewServer makes a Server of a [http.Server], whose Handler and ConnState it sets.
func NewServer(opts Options, server *http.Server) *Server {
	s := &Server{http: server, silent: map[net.Conn]struct{}{}}
	server.Handler, server.ConnState = Handler(opts), s.track
	return s
}

// Serve serves connections until Shutdown or Close, and returns when all connections have
// ended, with [http.ErrServerClosed].
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		err = errors.Join(err, s.http.Close())
	}
	s.conns.Wait()
	return err
}

// Shutdown accepts no more connections and waits for the current replies. If ctx ends first,
// it closes the connections that are left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeSilent()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

// Close closes all connections.
func (s *Server) Close() error { return s.http.Close() }

// closeSilent closes connections without a request now. http.Server.Shutdown waits up to
// five seconds for them.
func (s *Server) closeSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for conn := range s.silent {
		_ = conn.Close()
	}
}

func (s *Server) track(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.silent, conn)
	switch state {
	case http.StateNew:
		s.conns.Add(1)
		s.silent[conn] = struct{}{}
		if s.ending {
			_ = conn.Close()
		}
	case http.StateClosed:
		s.conns.Done()
	default:
	}
}
