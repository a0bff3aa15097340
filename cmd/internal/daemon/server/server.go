package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// writeTime is how long a client may take to accept the reply to an event.
const writeTime = 5 * time.Second

// A Server serves the routes of openapi.yaml over connections of a Listener.
type Server struct {
	http  *http.Server
	conns sync.WaitGroup

	mu     sync.Mutex
	silent map[net.Conn]struct{} // no request was read from them yet
	ending bool
}

// NewServer wraps an [http.Server] and sets its Handler, ConnState and ConnContext.
func NewServer(opts Options, server *http.Server) *Server {
	s := &Server{http: server, silent: map[net.Conn]struct{}{}}
	server.Handler, server.ConnState = Handler(opts), s.track
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, conn)
	}
	return s
}

type peerKey struct{}

// PeerPID returns the ID of the process that sent a request to a Server, from the context of the
// request. An error means that the system does not report it.
func PeerPID(ctx context.Context) (int, error) {
	conn, ok := ctx.Value(peerKey{}).(*net.UnixConn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return pidOf(conn)
}

// Serve serves connections of all listeners until Shutdown or Close, or until one listener fails. It
// returns [http.ErrServerClosed] after all connections have ended.
func (s *Server) Serve(listeners ...net.Listener) error {
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- s.http.Serve(l) }()
	}
	var failed error
	for range listeners {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			failed = errors.Join(failed, err, s.http.Close()) // ends the others
		}
	}
	s.conns.Wait()
	return cmp.Or(failed, http.ErrServerClosed)
}

// Shutdown stops accepting connections and waits for the current replies. If ctx ends first, it
// closes the remaining connections.
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

// closeSilent closes connections that have not sent a request yet. http.Server.Shutdown would
// wait up to five seconds for them.
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
