package outbound

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A Resolver finds the addresses of a host, whose name ends in a dot: a
// [net.Resolver] then leaves it alone, and does not append a domain of its own.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are what a [Client] does otherwise. The zero value is the default.
type Options struct {
	Guard    Guard
	RootCAs  *x509.CertPool // who vouches for servers; nil = those of the system
	Resolver Resolver       // nil = the system's

	// Dial connects to an address and a port, never to a name. nil = through a
	// [net.Dialer] that checks the address once more when the socket is there.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Failed is told of each event that a webhook was not told of. It must be safe for
	// concurrent use. nil = a warning in the log of package slog.
	Failed func(webhook string, err error)
}

// A Client makes webhooks and delivers for them. It is safe for concurrent use.
type Client struct {
	opts Options

	mu      sync.Mutex
	closed  bool // guarded by mu
	running sync.WaitGroup
}

// NewClient makes a Client. nil stands for the default options.
func NewClient(opts *Options) *Client {
	c := &Client{}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Resolver == nil {
		c.opts.Resolver = net.DefaultResolver
	}
	if c.opts.Dial == nil {
		c.opts.Dial = dialer(c.opts.Guard).DialContext
	}
	if c.opts.Failed == nil {
		c.opts.Failed = func(webhook string, err error) {
			slog.Warn("a webhook was not told of an event", "webhook", webhook, "error", err)
		}
	}
	return c
}

// dialer checks what is dialled when nothing can come between any more.
func dialer(g Guard) *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fault(ForbiddenIP, "%q is no address", address)
		}
		return g.CheckAddr(to.Addr())
	}}
}

// Close waits for the deliveries that are under way, as long as ctx lasts. No further
// ones begin.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("deliveries are still under way: %w", context.Cause(ctx))
	}
}

// start runs a delivery in a goroutine that Close waits for, unless it is too late.
func (c *Client) start(deliver func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(deliver)
	}
	return !c.closed
}

const (
	// maxLookup bounds the search for a host's addresses, and so does half of the time
	// that a delivery may take: what is left has to do for everything else.
	maxLookup = 5 * time.Second

	// maxTries is how many addresses of a host are dialled. Each gets its share of the
	// time, and whoever answers for a name can list thousands.
	maxTries = 8

	// maxAnswer is how much of an answer is read, headers included. Nobody looks at it;
	// a server that can say all that it wants to does not see its connection break.
	maxAnswer = 64 << 10

	// maxInterim is how many answers may come before the answer, such as 103.
	maxInterim = 8
)

// post sends one request to a URL that the Guard has checked, and returns the status of
// the answer. ctx has a deadline.
//
// It writes a request and reads an answer on a connection of its own, without an
// http.Client: what follows redirects, asks the environment for a proxy, keeps
// connections, expands what is compressed or moves to another server is not there.
func (c *Client) post(ctx context.Context, u *url.URL, header http.Header, body []byte) (status int, err error) {
	host := u.Hostname()
	defer func() { err = explain(ctx, host, err) }()
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		return 0, err
	}
	tcp, err := c.dial(ctx, addrs, cmp.Or(u.Port(), "443"))
	if err != nil {
		return 0, err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Unix(1, 0)) })()

	conn := tls.Client(tcp, &tls.Config{ServerName: host, RootCAs: c.opts.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := conn.HandshakeContext(ctx); err != nil {
		return 0, fault(TLS, "%s: %w", host, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header, req.Close = header, true
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	return readAnswer(bufio.NewReader(io.LimitReader(conn, maxAnswer)), req)
}

// readAnswer reads an answer to its end, or as far as it is read.
func readAnswer(r *bufio.Reader, req *http.Request) (status int, err error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r, req)
		if err != nil {
			return 0, err
		}
		if resp.StatusCode >= 200 {
			// What breaks now does not matter: the server has answered. The time does.
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return resp.StatusCode, req.Context().Err()
		}
	}
	return 0, fmt.Errorf("more than %d answers before the answer", maxInterim)
}

// resolve returns the addresses of a host, if all of them may be dialled.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, c.opts.Guard.CheckAddr(addr)
	}
	limit := maxLookup
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	lookup, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w of %v for the lookup", grapnel.ErrTimeout, limit.Round(time.Millisecond)))
	defer cancel()
	addrs, err := c.opts.Resolver.LookupNetIP(lookup, "ip", host+".")
	switch {
	case lookup.Err() != nil:
		return nil, fault(DNSError, "the addresses of %s were not found: %w", host, context.Cause(lookup))
	case err != nil:
		return nil, fault(DNSError, "the addresses of %s were not found: %w", host, err)
	case len(addrs) == 0:
		return nil, fault(DNSError, "%s has no address", host)
	}
	for _, addr := range addrs { // one that is not public may be meant to be dialled second
		if err := c.opts.Guard.CheckAddr(addr); err != nil {
			return nil, fault(DNSForbiddenIP, "%s has the address %v, and %w", host, addr, err)
		}
	}
	return addrs, nil
}

// dial connects to the first address that answers. None gets more than its share of
// the time.
func (c *Client) dial(ctx context.Context, addrs []netip.Addr, port string) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxTries)]
	var failed error
	for i, addr := range addrs {
		share := ctx
		if end, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			share, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(addrs)-i))
			defer cancel()
		}
		conn, err := c.opts.Dial(share, "tcp", net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// explain says what kind of failure it was.
func explain(ctx context.Context, host string, err error) error {
	if err == nil {
		return nil
	}
	known, ok := errors.AsType[*Error](err)
	switch {
	case ok && (known.Fault != TLS || ctx.Err() == nil):
		return known
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), grapnel.ErrTimeout):
		return fault(Timeout, "%s did not answer in time: %w", host, context.Cause(ctx))
	case ctx.Err() != nil:
		return fault(Unreachable, "%s: given up: %w", host, context.Cause(ctx))
	default:
		return fault(Unreachable, "%s: %w", host, err)
	}
}
