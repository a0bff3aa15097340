package outbound

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	maxIdle     = 64 // connections that nobody uses are kept, of all hosts
	maxIdleHost = 8  // and of one
)

// A connection is to an address that was checked.
type connection struct {
	net.Conn            // TLS, or in the clear
	tcp      net.Conn   // below it
	addr     netip.Addr // that was dialled
	host     string     // scheme, name and port: for whom it may be used again

	// Of an idle one: done is closed when nobody reads from it any more, and silent says
	// that nothing had come until then, not even its end.
	done   chan struct{}
	silent bool
}

// idle keeps connections that may be used again, each with a goroutine that reads from it:
// what the server says when nobody has asked, that it hangs up included, ends the
// connection, and can never be taken for the answer to the next request.
type idle struct {
	mu      sync.Mutex
	closed  bool          // guarded by mu
	conns   []*connection // guarded by mu; the last was put last
	readers sync.WaitGroup
}

// put keeps a connection for a while, or closes it if there are enough.
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
		if p.remove(c) { // nobody took it, and it is over
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

// take returns a connection to a host that is still good, the youngest first, or nil.
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

// drop closes the connections that somebody wants gone.
func (p *idle) drop(gone func(*connection) bool) {
	for c := p.pop(gone); c != nil; c = p.pop(gone) {
		_ = c.tcp.Close()
		<-c.done
	}
}

// close closes all of them. None is kept from now on.
func (p *idle) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(func(*connection) bool { return true })
	p.readers.Wait()
}
