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
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/certs"
)

// A Resolver looks up the addresses of a host. The host name ends in a dot, so that a
// [net.Resolver] does not append a search domain.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a [Client]. The zero value is the default.
type Options struct {
	Guard    Guard
	RootCAs  *x509.CertPool // trusted certificate authorities; nil = the system's
	CA       []string       // files with further ones, in PEM format; they are read for each new connection
	Resolver Resolver       // nil = the system's

	// Dial connects to an IP address and a port, never to a name. nil = a [net.Dialer] that
	// checks the address again when it has created the socket.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// KeepIdle is how long an idle connection is kept for the next request to the same host and
	// port. Only requests that may be sent twice reuse connections: requests of a Hook and of
	// Post. It is meant for long-running programs. During that time the name is not looked up
	// again. 0 = each request uses a new connection.
	KeepIdle time.Duration

	// Failed is called for each event that a webhook could not deliver. It must be safe for
	// concurrent use. nil = a warning in the log of package slog.
	Failed func(webhook string, err error)
}

// A Client creates webhooks and sends their requests. It is safe for concurrent use.
type Client struct {
	opts Options
	idle idle

	mu      sync.Mutex
	guard   Guard    // guarded by mu
	ca      []string // guarded by mu
	closed  bool     // guarded by mu
	running sync.WaitGroup
}

// NewClient returns a Client. A nil opts means the default options.
func NewClient(opts *Options) *Client {
	c := &Client{}
	if opts != nil {
		c.opts = *opts
	}
	c.guard, c.ca = c.opts.Guard, c.opts.CA
	if c.opts.Resolver == nil {
		c.opts.Resolver = net.DefaultResolver
	}
	if c.opts.Dial == nil {
		c.opts.Dial = dialer(c.Guard).DialContext
	}
	if c.opts.Failed == nil {
		c.opts.Failed = func(webhook string, err error) {
			slog.Warn("webhook delivery failed", "webhook", webhook, "error", err)
		}
	}
	return c
}

// dialer returns a dialer that checks the address immediately before it connects, when it can no
// longer change.
func dialer(guard func() Guard) *net.Dialer {
	return &net.Dialer{ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fault(ForbiddenIP, "%q is not an IP address", address)
		}
		host, _ := ctx.Value(hostKey{}).(string)
		return guard().checkOf(host)(to.Addr())
	}}
}

// hostKey is the key of the host that a dial is for, see hostOf.
type hostKey struct{}

// Guard returns the current Guard.
func (c *Client) Guard() Guard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard
}

// Set replaces the guard and the files with certificate authorities. They apply to all later
// connections. When it returns, idle connections that are no longer allowed are closed. Requests that
// have already started are not affected.
func (c *Client) Set(guard Guard, ca []string) {
	c.mu.Lock()
	again := !slices.Equal(c.ca, ca)
	c.guard, c.ca = guard, ca
	c.mu.Unlock()
	c.idle.drop(func(conn *connection) bool { return again || guard.checkOf(conn.host)(conn.addr) != nil })
}

// Close waits until running deliveries have ended or ctx is done. No new deliveries start. It
// closes idle connections, and later ones are not kept. It returns an error if deliveries are
// still running.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.close()
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("deliveries are still in progress: %w", context.Cause(ctx))
	}
}

// start runs a delivery in a goroutine that Close waits for. It returns false if the client is
// closed.
func (c *Client) start(deliver func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(deliver)
	}
	return !c.closed
}

const (
	// maxLookup limits the DNS lookup. The lookup is also limited to half of the request's time,
	// because the connection and the response need the rest.
	maxLookup = 5 * time.Second

	// maxTries is the maximum number of addresses to dial. Each address gets a share of the time,
	// and the owner of a name could list thousands.
	maxTries = 8

	// maxAnswer is the maximum number of response bytes to read, including headers. The content
	// is discarded; reading it avoids a broken connection on the server's side.
	maxAnswer = 64 << 10

	// maxInterim is the maximum number of interim responses, such as 103.
	maxInterim = 8
)

// post sends one request to a URL that the Guard has checked, and returns the response status.
// ctx must have a deadline.
func (c *Client) post(ctx context.Context, u *url.URL, header http.Header, body []byte) (status int, err error) {
	err = c.exchange(ctx, request{url: u, header: header, body: body, head: maxAnswer}, func(a answer) error {
		// The server has answered, so an error from here on does not matter. The time limit still
		// applies.
		_, _ = io.Copy(io.Discard, a.Body)
		status = a.StatusCode
		return nil
	})
	return status, err
}

// A request is a request to a URL that the Guard has checked.
type request struct {
	url    *url.URL
	method string // empty = POST
	header http.Header
	body   []byte
	head   int64 // maximum number of bytes up to the end of the response headers
	again  bool  // the request may be sent twice, because the receiver can recognize duplicates
}

// An answer is a response with its connection. read may increase limit to read more bytes.
type answer struct {
	*http.Response
	limit *io.LimitedReader
	tcp   net.Conn
}

// exchange sends a request and calls read with the response. ctx must have a deadline.
//
// It does not use an http.Client, and therefore follows no redirects, uses no proxy from the
// environment, decompresses nothing and does not switch to another server. It keeps a connection
// for the next request only if KeepIdle allows it and the response was read completely. A kept
// connection may be broken: if the server sends nothing at all, exchange repeats the request on a
// new connection, but only once.
func (c *Client) exchange(ctx context.Context, r request, read func(answer) error) (err error) {
	defer func() { err = explain(ctx, r.url.Hostname(), err) }()
	host := hostOf(r.url)
	if r.again && c.opts.KeepIdle > 0 {
		if conn := c.idle.take(host, c.Guard().checkOf(host)); conn != nil {
			silent, err := c.talk(ctx, conn, r, read)
			if err == nil || !silent || ctx.Err() != nil {
				return err
			}
		}
	}
	conn, err := c.connect(ctx, r.url)
	if err != nil {
		return err
	}
	_, err = c.talk(ctx, conn, r, read)
	return err
}

// connect opens a connection to the host of a URL, with TLS for https and schemeSMTPS.
func (c *Client) connect(ctx context.Context, u *url.URL) (*connection, error) {
	name, host := u.Hostname(), hostOf(u)
	addrs, err := c.resolve(ctx, name, c.Guard().checkOf(host))
	if err != nil {
		return nil, err
	}
	tcp, addr, err := c.dial(context.WithValue(ctx, hostKey{}, host), addrs, portOf(u))
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: tcp, tcp: tcp, addr: addr, host: host}
	var protocols []string
	switch u.Scheme {
	case "http", schemeSMTP:
		return conn, nil
	case "https":
		protocols = []string{"http/1.1"}
	}
	config, err := c.tlsConfig(name, protocols...)
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	secured := tls.Client(tcp, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, fault(TLS, "%s: %w", name, err)
	}
	conn.Conn = secured
	return conn, nil
}

// tlsConfig returns the configuration for a connection to a host, with the authorities of now.
func (c *Client) tlsConfig(host string, protocols ...string) (*tls.Config, error) {
	c.mu.Lock()
	files := c.ca
	c.mu.Unlock()
	roots, err := certs.Roots(c.opts.RootCAs, files)
	if err != nil {
		return nil, fault(TLS, "%s: %w", host, err)
	}
	return &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: protocols}, nil
}

// hostOf returns the scheme, host and port of a URL; portOf returns only the port.
func hostOf(u *url.URL) string { return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), strconv.Itoa(int(defaultPort(u.Scheme))))
}

// talk sends a request over a connection, and then keeps or closes the connection. silent reports
// that the server sent nothing.
func (c *Client) talk(ctx context.Context, conn *connection, r request, read func(answer) error) (silent bool, err error) {
	keep := false
	stop := context.AfterFunc(ctx, func() { _ = conn.tcp.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		// If ctx ended just now, its deadline remains set, so the connection cannot be reused.
		if stop() && keep {
			c.idle.put(conn, c.opts.KeepIdle)
			return
		}
		_ = conn.tcp.Close()
	}()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodPost), r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return false, err
	}
	req.Header, req.Close = r.header, !r.again || c.opts.KeepIdle <= 0
	limit := &io.LimitedReader{R: conn, N: r.head}
	buffered := bufio.NewReader(limit)
	failed := req.Write(conn)
	resp, err := readAnswer(buffered, req) //nolint:bodyclose // Close would read the whole body, and nothing else needs to be closed
	silent = limit.N == r.head
	switch {
	case failed != nil && (err != nil || resp.StatusCode < 300):
		return silent, failed
	case failed != nil: // the server rejected the request before reading all of it; its status is the reason
		return false, read(answer{resp, limit, conn.tcp})
	case err != nil && limit.N <= 0:
		return false, fault(Unreachable, "%s: the response headers are larger than %d bytes", r.url.Hostname(), r.head)
	case err != nil:
		return silent, err
	}
	body := &untilEnd{ReadCloser: resp.Body, ended: resp.Body == http.NoBody}
	resp.Body = body
	err = cmp.Or(read(answer{resp, limit, conn.tcp}), ctx.Err())
	keep = err == nil && body.ended && !req.Close && !resp.Close && buffered.Buffered() == 0
	return false, err
}

// untilEnd records whether a body was read to its end.
type untilEnd struct {
	io.ReadCloser
	ended bool
}

func (b *untilEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// readAnswer skips interim responses and reads a response up to its body.
func readAnswer(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r, req)
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
	}
	return nil, fmt.Errorf("more than %d interim responses", maxInterim)
}

// resolve returns the addresses of a host. It returns an error if any address fails the check.
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
		return nil, fault(DNSError, "cannot look up the addresses of %s: %w", host, context.Cause(lookup))
	case err != nil:
		return nil, fault(DNSError, "cannot look up the addresses of %s: %w", host, err)
	case len(addrs) == 0:
		return nil, fault(DNSError, "%s has no address", host)
	}
	for _, addr := range addrs { // reject all, because an attacker could make the client dial the non-public address second
		if err := check(addr); err != nil {
			return nil, fault(DNSForbiddenIP, "%s has the address %v: %w", host, addr, err)
		}
	}
	return addrs, nil
}

// dial connects to the first address that accepts the connection. Each address gets an equal
// share of the remaining time.
func (c *Client) dial(ctx context.Context, addrs []netip.Addr, port string) (net.Conn, netip.Addr, error) {
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
			return conn, addr, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, netip.Addr{}, failed
}

// explain converts an error to an [*Error] with the fitting Fault.
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
		return fault(Unreachable, "%s: canceled: %w", host, context.Cause(ctx))
	default:
		return fault(Unreachable, "%s: %w", host, err)
	}
}
