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

	// KeepIdle is how long a connection that nobody uses is kept for the next request to
	// the same host and port, by those that may be sent twice: of a Hook, and of Post. It
	// is for programs that live long. Within that time the name is not looked up again.
	// 0 = each request has a connection of its own.
	KeepIdle time.Duration

	// Failed is told of each event that a webhook was not told of. It must be safe for
	// concurrent use. nil = a warning in the log of package slog.
	Failed func(webhook string, err error)
}

// A Client makes webhooks and delivers for them. It is safe for concurrent use.
type Client struct {
	opts Options
	idle idle

	mu      sync.Mutex
	guard   Guard // guarded by mu
	closed  bool  // guarded by mu
	running sync.WaitGroup
}

// NewClient makes a Client. nil stands for the default options.
func NewClient(opts *Options) *Client {
	c := &Client{}
	if opts != nil {
		c.opts = *opts
	}
	c.guard = c.opts.Guard
	if c.opts.Resolver == nil {
		c.opts.Resolver = net.DefaultResolver
	}
	if c.opts.Dial == nil {
		c.opts.Dial = dialer(c.Guard).DialContext
	}
	if c.opts.Failed == nil {
		c.opts.Failed = func(webhook string, err error) {
			slog.Warn("a webhook was not told of an event", "webhook", webhook, "error", err)
		}
	}
	return c
}

// dialer checks what is dialled when nothing can come between any more.
func dialer(guard func() Guard) *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fault(ForbiddenIP, "%q is no address", address)
		}
		return guard().CheckAddr(to.Addr())
	}}
}

// Guard returns what may be dialled now.
func (c *Client) Guard() Guard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard
}

// SetNetworks changes which networks are open. It holds for each connection that is made
// from now on, and idle ones to an address that is closed now are gone when it returns.
// Requests that are under way end as they began.
func (c *Client) SetNetworks(networks []netip.Prefix) {
	guard := Guard{Networks: slices.Clone(networks)}
	c.mu.Lock()
	c.guard = guard
	c.mu.Unlock()
	c.idle.drop(func(conn *connection) bool { return guard.checkOf(conn.host)(conn.addr) != nil })
}

// Close waits for the deliveries that are under way, as long as ctx lasts. No further
// ones begin. Idle connections are closed, and none is kept any more.
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
	err = c.exchange(ctx, request{u, header, body, maxAnswer, false}, func(a answer) error {
		// What breaks now does not matter: the server has answered. The time does.
		_, _ = io.Copy(io.Discard, a.Body)
		status = a.StatusCode
		return nil
	})
	return status, err
}

// A request is a POST to a URL that the Guard has checked.
type request struct {
	url    *url.URL
	header http.Header
	body   []byte
	head   int64 // so many bytes of the answer are read up to the end of its headers
	again  bool  // whoever hears it twice can tell
}

// An answer came over a connection, of which so many more bytes may be read.
type answer struct {
	*http.Response
	limit *io.LimitedReader
	tcp   net.Conn
}

// exchange sends a request, and has read take the answer, and permit more bytes of it. ctx
// has a deadline.
//
// It writes a request and reads an answer on a connection of its own, without an
// http.Client: what follows redirects, asks the environment for a proxy, expands what is
// compressed or moves to another server is not there. A connection is kept for the next
// request only if KeepIdle says so and the answer was read to its end. One that was kept
// may be broken: if nothing at all came back, the request is sent once more on a new one.
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

// connect makes a connection to the host of a URL.
func (c *Client) connect(ctx context.Context, u *url.URL) (*connection, error) {
	name, host := u.Hostname(), hostOf(u)
	addrs, err := c.resolve(ctx, name, c.Guard().checkOf(host))
	if err != nil {
		return nil, err
	}
	tcp, addr, err := c.dial(ctx, addrs, portOf(u))
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: tcp, tcp: tcp, addr: addr, host: host}
	if u.Scheme == "http" {
		return conn, nil
	}
	secured := tls.Client(tcp, &tls.Config{ServerName: name, RootCAs: c.opts.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, fault(TLS, "%s: %w", name, err)
	}
	conn.Conn = secured
	return conn, nil
}

// hostOf is the scheme, host and port of a URL, portOf the port alone.
func hostOf(u *url.URL) string { return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), strconv.Itoa(int(defaultPort(u.Scheme))))
}

// talk sends a request over a connection, and closes or keeps it then. silent says that
// nothing came back.
func (c *Client) talk(ctx context.Context, conn *connection, r request, read func(answer) error) (silent bool, err error) {
	keep := false
	stop := context.AfterFunc(ctx, func() { _ = conn.tcp.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		// One whose time was just over has a deadline that nobody takes back.
		if stop() && keep {
			c.idle.put(conn, c.opts.KeepIdle)
			return
		}
		_ = conn.tcp.Close()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return false, err
	}
	req.Header, req.Close = r.header, !r.again || c.opts.KeepIdle <= 0
	limit := &io.LimitedReader{R: conn, N: r.head}
	buffered := bufio.NewReader(limit)
	failed := req.Write(conn)
	resp, err := readAnswer(buffered, req) //nolint:bodyclose // that would read the body to its end, and there is nothing else to close
	silent = limit.N == r.head
	switch {
	case failed != nil && (err != nil || resp.StatusCode < 300):
		return silent, failed
	case failed != nil: // a server that wants no more of it has said why
		return false, read(answer{resp, limit, conn.tcp})
	case err != nil && limit.N <= 0:
		return false, fault(Unreachable, "%s: the headers of its answer have more than %d bytes", r.url.Hostname(), r.head)
	case err != nil:
		return silent, err
	}
	body := &untilEnd{ReadCloser: resp.Body, ended: resp.Body == http.NoBody}
	resp.Body = body
	err = cmp.Or(read(answer{resp, limit, conn.tcp}), ctx.Err())
	keep = err == nil && body.ended && !req.Close && !resp.Close && buffered.Buffered() == 0
	return false, err
}

// untilEnd knows whether a body was read to its end, and that this was one.
type untilEnd struct {
	io.ReadCloser
	ended bool
}

func (b *untilEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
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
