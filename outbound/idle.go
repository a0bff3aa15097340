package outbound

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	maxIdle     = 64 // maximum number of idle connections in total
	maxIdleHost = 8  // maximum number of idle connections per host
)

// A connection is an open connection to a checked address.
type connection struct {
	net.Conn            // TLS or plain TCP
	tcp      net.Conn   // the underlying TCP connection
	addr     netip.Addr // remote address
	host     string     // scheme, name and port that may reuse the connection

	// For idle connections: done is closed when the reading goroutine has ended. silent reports
	// that the server had sent nothing until then, not even the end of the stream.
	done   chan struct{}
	silent bool
}

// idle keeps reusable connections, each with a goroutine that reads from it. If the server sends
// data without a request or closes the connection, the goroutine ends the connection. Such data
// can therefore never be read as the response to the next request.
type idle struct {
	mu      sync.Mutex
	closed  bool          // guarded by mu
	conns   []*connection // guarded by mu; most recently used last
	readers sync.WaitGroup
}

// put keeps a connection for the given time, or closes it if a limit is reached.
func (p *idle) put(c *connection, keep time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := 0
	for _, other := range p.conns {
		if other.host == c.host {
			same++
		}
	}
	if p.closed || len(p.conns) >= maxIdle || same >= maxIdleHost || c.SetReadDeadline(time.Now().Add(keep)) != nil {
		_ = c.tcp.Close()
		return
	}
	c.done, c.silent = make(chan struct{}), false
	p.conns = append(p.conns, c)
	p.readers.Go(func() {
		defer close(c.done)
		n, err := c.Read(make([]byte, 1))
		timeout, ok := err.(net.Error) //nolint:errorlint // a deadline is not wrapped
		c.silent = n == 0 && ok && timeout.Timeout()
		if p.remove(c) { // still in the pool, so it has expired or failed
			_ = c.tcp.Close()
		}
	})
}

func (p *idle) remove(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.conns, c)
	if i < 0 {
		return false
	}
	p.conns = slices.Delete(p.conns, i, i+1)
	return true
}

// take returns a usable connection to a host, the most recently used first, or nil.
func (p *idle) take(host string, check func(netip.Addr) error) *connection {
	for {
		c := p.pop(func(c *connection) bool { return c.host == host })
		if c == nil {
			return nil
		}
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-c.done
		if c.silent && check(c.addr) == nil && c.SetDeadline(time.Time{}) == nil {
			return c
		}
		_ = c.tcp.Close()
	}
}

func (p *idle) pop(want func(*connection) bool) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range slices.Backward(p.conns) {
		if want(c) {
			p.conns = slices.Delete(p.conns, i, i+1)
			return c
		}
	}
	return nil
}

// drop closes the connections for which gone returns true.
func (p *idle) drop(gone func(*connection) bool) {
	for c := p.pop(gone); c != nil; c = p.pop(gone) {
		_ = c.tcp.Close()
		<-c.done
	}
}

// close closes all connections. Connections that are put later are closed immediately.
func (p *idle) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(func(*connection) bool { return true })
	p.readers.Wait()
}
