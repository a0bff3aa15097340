package outbound

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// kept starts a TLS server. It returns options that keep idle connections to it, and a counter of
// the connections.
func kept(t *testing.T, h http.HandlerFunc) (opts *Options, server *httptest.Server, dialled *atomic.Int32) {
	t.Helper()
	server = httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	dialled = &atomic.Int32{}
	guard := networks(t, "127.0.0.0/8")
	return &Options{
		Guard: guard, RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, KeepIdle: time.Minute,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}, server, dialled
}

func post(t *testing.T, c *Client, url string) (Reply, error) {
	t.Helper()
	return c.Post(t.Context(), message(url))
}

// Messages and hooks share one connection. Webhooks use another one.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	opts, server, dialled := kept(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, `{"decision":"block"}`)
	})
	c := NewClient(opts)
	h, err := c.Hook(HookConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := post(t, c, server.URL); err != nil {
			t.Fatal(err)
		}
		if out, err := h.Handle(t.Context(), command); err != nil || out.Decision.String() != "block" {
			t.Fatal(out, err)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections for 40 requests", n)
	}
	if _, err := post(t, c, server.URL+"/close"); err != nil {
		t.Fatal(err)
	}
	if _, err := post(t, c, server.URL); err != nil || dialled.Load() != 2 {
		t.Errorf("%v, %d connections, and one was said to end", err, dialled.Load())
	}
	w, err := c.Webhook(Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Deliver(t.Context(), command); err != nil || dialled.Load() != 3 {
		t.Errorf("a webhook, which has no identity: %v, %d connections", err, dialled.Load())
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Without KeepIdle the client sends no second request on a connection.
func TestConnectionsAreNotKept(t *testing.T) {
	t.Parallel()
	opts, server, dialled := kept(t, respond(200, ""))
	opts.KeepIdle = 0
	c := NewClient(opts)
	for range 3 {
		if _, err := post(t, c, server.URL); err != nil {
			t.Fatal(err)
		}
	}
	if n := dialled.Load(); n != 3 {
		t.Errorf("%d connections for 3 requests", n)
	}
}

// After a network is closed, the client sends nothing over an old connection to it.
func TestClosedNetworks(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	opts, server, dialled := kept(t, respond(200, ""))
	inner := opts.Dial
	opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &closing{Conn: conn, open: &open}, nil
	}
	c := NewClient(opts)
	if _, err := post(t, c, server.URL); err != nil || open.Load() != 1 {
		t.Fatal(err, open.Load())
	}
	c.Set(networks(t, "10.0.0.0/8"), nil)
	if open.Load() != 0 {
		t.Error("the connection is still there")
	}
	if _, err := post(t, c, server.URL); faultOf(err) != ForbiddenIP || dialled.Load() != 1 {
		t.Errorf("%v, %d connections", err, dialled.Load())
	}
	c.Set(opts.Guard, nil)
	if _, err := post(t, c, server.URL); err != nil || dialled.Load() != 2 {
		t.Errorf("opened again: %v, %d connections", err, dialled.Load())
	}
}

// The dialer uses the networks that are open now, not the networks at the time of NewClient.
func TestDialerAsksAgain(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(respond(200, ""))
	t.Cleanup(server.Close)
	c := NewClient(nil)
	if _, err := post(t, c, server.URL); faultOf(err) != ForbiddenIP {
		t.Error(err)
	}
	c.Set(networks(t, "127.0.0.0/8"), nil)
	if _, err := post(t, c, server.URL); err != nil {
		t.Error(err)
	}
}

// An idle connection ends after KeepIdle, when the client is closed, and when the server closes it.
// It leaves no goroutine and no connection behind.
func TestIdleConnectionsEnd(t *testing.T) { // alone, since it counts all goroutines
	before := runtime.NumGoroutine()
	var open atomic.Int32
	opts, server, _ := kept(t, respond(200, ""))
	inner := opts.Dial
	opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &closing{Conn: conn, open: &open}, nil
	}
	wait := func(what string) {
		t.Helper()
		await.Until(t, "no connection is open: "+what, func() bool { return open.Load() == 0 })
	}
	for what, end := range map[string]func(*Client){
		"time":   func(*Client) {},
		"server": func(*Client) { server.CloseClientConnections() },
		"client": func(c *Client) { _ = c.Close(t.Context()) },
	} {
		if opts.KeepIdle = time.Minute; what == "time" {
			opts.KeepIdle = 20 * time.Millisecond
		}
		c := NewClient(opts)
		if _, err := post(t, c, server.URL); err != nil {
			t.Fatal(what, err)
		}
		if what != "time" && open.Load() != 1 {
			t.Errorf("%s: %d connections are kept", what, open.Load())
		}
		end(c)
		wait(what)
		if _, err := post(t, c, server.URL); err != nil {
			t.Error(what, err)
		}
		_ = c.Close(t.Context())
		wait(what)
	}
	server.Close()
	server.Client().CloseIdleConnections()
	await.Until(t, "no more goroutines run than before", func() bool { return runtime.NumGoroutine() <= before })
}

// The client keeps at most maxIdleHost idle connections to a host, even if there were more.
func TestIdleConnectionsAreFew(t *testing.T) {
	t.Parallel()
	var arrived sync.WaitGroup
	arrived.Add(3 * maxIdleHost)
	opts, server, dialled := kept(t, func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait()
	})
	c := NewClient(opts)
	defer func() { _ = c.Close(t.Context()) }()
	var all sync.WaitGroup
	for range 3 * maxIdleHost {
		all.Go(func() {
			if _, err := post(t, c, server.URL); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.idle.mu.Lock()
	n := len(c.idle.conns)
	c.idle.mu.Unlock()
	if n != maxIdleHost || dialled.Load() != 3*maxIdleHost {
		t.Errorf("%d of %d connections are kept, want %d", n, dialled.Load(), maxIdleHost)
	}
}

// raws starts a server that uses the next function of each for each connection.
func raws(t *testing.T, each ...func(c net.Conn, r *bufio.Reader)) (url string, served *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	served = &atomic.Int32{}
	all.Go(func() {
		for _, serve := range each {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Add(1)
			all.Go(func() { defer conn.Close(); serve(conn, bufio.NewReader(conn)) })
		}
	})
	return "http://" + l.Addr().String(), served
}

func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return err == nil
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// If an idle connection breaks before the first byte of the response, the client sends the request
// again, but only once. After the first byte it does not.
func TestBrokenIdleConnections(t *testing.T) {
	t.Parallel()
	once := func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, fine)
		_ = readRequest(r)
	}
	good := func(c net.Conn, r *bufio.Reader) {
		for readRequest(r) {
			_, _ = io.WriteString(c, fine)
		}
	}
	mute := func(_ net.Conn, r *bufio.Reader) { readRequest(r) }
	partly := func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, fine)
		_ = readRequest(r)
		_, _ = io.WriteString(c, "HTTP/1.1 20")
	}
	spoken := make(chan struct{}) // closed when the server has sent a response without a request
	unasked := func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, fine)
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		close(spoken)
		_ = readRequest(r)
	}
	behind := func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, fine+"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n")
		_ = readRequest(r)
	}
	for name, tt := range map[string]struct {
		each []func(net.Conn, *bufio.Reader)
		want Fault
		n    int32
	}{
		"breaks":          {[]func(net.Conn, *bufio.Reader){once, good, good}, "ok", 2},
		"breaks again":    {[]func(net.Conn, *bufio.Reader){once, mute, good}, Unreachable, 2},
		"new, and mute":   {[]func(net.Conn, *bufio.Reader){func(c net.Conn, r *bufio.Reader) { readRequest(r); _, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n") }, mute, good}, Unreachable, 2},
		"half an answer":  {[]func(net.Conn, *bufio.Reader){partly, good, good}, Unreachable, 1},
		"says something":  {[]func(net.Conn, *bufio.Reader){unasked, good, good}, "ok", 2},
		"says it at once": {[]func(net.Conn, *bufio.Reader){behind, good, good}, "ok", 2},
		"stays":           {[]func(net.Conn, *bufio.Reader){good, good}, "ok", 1},
		"an empty chunked": {[]func(net.Conn, *bufio.Reader){func(c net.Conn, r *bufio.Reader) {
			for readRequest(r) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
			}
		}}, "ok", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, served := raws(t, tt.each...)
			c := NewClient(&Options{Guard: networks(t, "127.0.0.0/8"), KeepIdle: time.Minute})
			defer func() { _ = c.Close(t.Context()) }()
			if reply, err := post(t, c, url); err != nil || reply.Status != 200 {
				t.Fatal(reply, err)
			}
			if name == "says something" {
				await.Receive(t, "what the server says unasked", spoken)
				time.Sleep(200 * time.Millisecond)
			}
			reply, err := post(t, c, url)
			if faultOf(err) != tt.want || err == nil && reply.Status != 200 || served.Load() != tt.n {
				t.Errorf("%v, %v, %d connections, want %s and %d", reply, err, served.Load(), tt.want, tt.n)
			}
		})
	}
}

// Many concurrent requests each get their own response, on any connection.
func TestConcurrentReuse(t *testing.T) {
	t.Parallel()
	opts, server, dialled := kept(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"reason":%q}`, strings.TrimPrefix(r.URL.Path, "/"))
	})
	c := NewClient(opts)
	defer func() { _ = c.Close(t.Context()) }()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			h, err := c.Hook(HookConfig{URL: fmt.Sprintf("%s/%d", server.URL, i), Timeout: MaxTimeout})
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				if out, err := h.Handle(t.Context(), command); err != nil || out.Reason != fmt.Sprint(i) {
					t.Errorf("%v, %v", out, err)
				}
			}
		})
	}
	all.Wait()
	if n := dialled.Load(); n > 16 {
		t.Errorf("%d connections for 8 that ask", n)
	}
}
