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
	"strconv"
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
func (c *Client) post(ctx context.Context, u *url.URL, header http.Header, body []byte) (status int, err error) {
	err = c.exchange(ctx, u, header, body, maxAnswer, func(resp *http.Response, _ *io.LimitedReader) error {
		// What breaks now does not matter: the server has answered. The time does.
		_, _ = io.Copy(io.Discard, resp.Body)
		status = resp.StatusCode
		return nil
	})
	return status, err
}

// exchange sends one request to a URL that the Guard has checked, and has read take the
// answer. Up to the end of its headers so many bytes of it are read; read may permit more.
// ctx has a deadline.
//
// It writes a request and reads an answer on a connection of its own, without an
// http.Client: what follows redirects, asks the environment for a proxy, keeps
// connections, expands what is compressed or moves to another server is not there.
func (c *Client) exchange(ctx context.Context, u *url.URL, header http.Header, body []byte, head int64, read func(*http.Response, *io.LimitedReader) error) (err error) {
	host, check := u.Hostname(), c.opts.Guard.CheckAddr
	if u.Scheme == "http" {
		check = c.opts.Guard.checkClear
	}
	defer func() { err = explain(ctx, host, err) }()
	addrs, err := c.resolve(ctx, host, check)
	if err != nil {
		return err
	}
	tcp, err := c.dial(ctx, addrs, cmp.Or(u.Port(), strconv.Itoa(int(defaultPort(u.Scheme)))))
	if err != nil {
		return err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Unix(1, 0)) })()

	conn := tcp
	if u.Scheme != "http" {
		secured := tls.Client(tcp, &tls.Config{ServerName: host, RootCAs: c.opts.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
		if err := secured.HandshakeContext(ctx); err != nil {
			return fault(TLS, "%s: %w", host, err)
		}
		conn = secured
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header, req.Close = header, true
	limit := &io.LimitedReader{R: conn, N: head}
	if err := req.Write(conn); err != nil {
		// A server that wants no more of it may have said why.
		if resp, noAnswer := readAnswer(bufio.NewReader(limit), req); noAnswer == nil && resp.StatusCode >= 300 { //nolint:bodyclose // see below
			return read(resp, limit)
		}
		return err
	}
	resp, err := readAnswer(bufio.NewReader(limit), req) //nolint:bodyclose // that would read the body to its end, and there is nothing else to close
	if err != nil {
		if limit.N <= 0 {
			return fault(Unreachable, "%s: the headers of its answer have more than %d bytes", host, head)
		}
		return err
	}
	return cmp.Or(read(resp, limit), ctx.Err())
}

// readAnswer reads an answer up to its body.
func readAnswer(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r, req)
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
	}
	return nil, fmt.Errorf("more than %d answers before the answer", maxInterim)
}

// resolve returns the addresses of a host, if all of them pass a check.
func (c *Client) resolve(ctx context.Context, host string, check func(netip.Addr) error) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, check(addr)
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
		if err := check(addr); err != nil {
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
