package outbound

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// names is a Resolver made from a function.
type names func(ctx context.Context, host string) ([]netip.Addr, error)

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return n(ctx, host)
}

// public returns a resolver that gives the same addresses for every name.
func public(addrs ...string) names {
	return func(context.Context, string) ([]netip.Addr, error) {
		var list []netip.Addr
		for _, a := range addrs {
			list = append(list, netip.MustParseAddr(a))
		}
		return list, nil
	}
}

const somewhere = "93.184.216.34"

// serve starts a server for hooks.example.com. The returned options reach only this server, at a
// public address.
func serve(t *testing.T, h http.HandlerFunc) *Options {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS() // its certificate is for *.example.com and for 127.0.0.1
	t.Cleanup(server.Close)
	return &Options{
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, Resolver: public(somewhere),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != somewhere+":443" {
				return nil, fmt.Errorf("%s was dialled", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
}

const hookURL = "https://hooks.example.com/in?key=s3cret"

func deliver(t *testing.T, opts *Options, cfg Config) error {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = hookURL
	}
	w, err := NewClient(opts).Webhook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Deliver(t.Context(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "words"}})
	if err != nil && (strings.Contains(err.Error(), "s3cret") || faultOf(err) == "") {
		t.Errorf("%v: want an Error with a Fault and without the URL", err)
	}
	return err
}

// The client sends one POST, with its own headers and the headers of the file, and nothing else.
//
// Proves: IC-66, IC-69
func TestRequest(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // must be ignored: IC-69
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	var got *http.Request
	var body []byte
	opts := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got = r
	})
	if err := deliver(t, opts, Config{Name: "src::x", URL: "https://HOOKS.example.com/a%2Fb?c=d#e", Headers: map[string]string{"x-team": "platform"}}); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(body) || !bytes.Contains(body, []byte(`"hook":"src::x"`)) || bytes.Contains(body, []byte("words")) {
		t.Errorf("body %s", body)
	}
	for what, is := range map[string][2]string{
		"method": {got.Method, "POST"}, "host": {got.Host, "hooks.example.com"}, "target": {got.RequestURI, "/a%2Fb?c=d"}, "protocol": {got.Proto, "HTTP/1.1"},
		"name": {got.TLS.ServerName, "hooks.example.com"}, "length": {fmt.Sprint(got.ContentLength), fmt.Sprint(len(body))}, "close": {fmt.Sprint(got.Close), "true"},
		"headers": {fmt.Sprint(got.Header), fmt.Sprintf("map[Connection:[close] Content-Length:[%d] Content-Type:[application/json] User-Agent:[grapnel] X-Team:[platform]]", len(body))},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: %s, want %s", what, is[0], is[1])
		}
	}
}

// The fault that each response causes, and its name in IronClaw.
//
// Proves: IC-63, IC-68
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		own      Fault
		ironclaw Fault
	}{
		"ok":       {func(http.ResponseWriter, *http.Request) {}, "ok", "ok"},
		"accepted": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, "ok", "ok"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1/", http.StatusTemporaryRedirect)
		}, Redirect, "ok"},
		"not there":    {http.NotFound, Refused, "ok"},
		"server error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, Refused, "ok"},
		"hints first": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		}, "ok", "ok"},
		"hints for ever": {func(w http.ResponseWriter, _ *http.Request) {
			for range 50 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, Unreachable, Unreachable},
		"breaks off before": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unreachable, Unreachable},
		"breaks off within": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "ok", "ok"},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 2*maxAnswer))
		}, Unreachable, Unreachable},
		"a body without end": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, "ok", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			opts := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				tt.answer(w, r)
			})
			if err := deliver(t, opts, Config{Timeout: MaxTimeout}); faultOf(err) != tt.own {
				t.Errorf("%v, want %s", err, tt.own)
			}
			if err := deliver(t, opts, Config{Timeout: MaxTimeout, Body: "ironclaw"}); faultOf(err) != tt.ironclaw {
				t.Errorf("in IronClaw's words: %v, want %s", err, tt.ironclaw)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests, want one for each delivery", n)
			}
		})
	}
}

// One timeout covers the whole delivery, and another one the lookup.
//
// Proves: IC-56, IC-63, IC-69
func TestTimeouts(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server must read the request to notice that the client is gone
		<-r.Context().Done()
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the connection succeeds, but no server accepts it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		change  func(o *Options)
		want    Fault
	}{
		"no answer": {hang, func(*Options) {}, Timeout},
		"a drip":    {drip, func(*Options) {}, Timeout},
		"no handshake": {hang, func(o *Options) {
			o.Dial = func(ctx context.Context, n, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, n, silent.Addr().String())
			}
		}, Timeout},
		"no connection": {hang, func(o *Options) {
			o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, Timeout},
		"no addresses": {hang, func(o *Options) {
			o.Resolver = names(func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() })
		}, DNSError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := serve(t, tt.handler)
			tt.change(opts)
			err := deliver(t, opts, Config{Timeout: 400 * time.Millisecond}) // must fire: the server hangs
			if faultOf(err) != tt.want || !errors.Is(err, grapnel.ErrTimeout) {
				t.Errorf("%v, want %s because of a timeout", err, tt.want)
			}
		})
	}
}

// If a lookup fails, or finds an address that is not public, the delivery ends before a connection
// is opened.
//
// Proves: IC-62, IC-69
func TestLookups(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		resolver Resolver
		guard    Guard
		want     Fault
	}{
		"fails":               {names(func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }), Guard{}, DNSError},
		"nothing":             {public(), Guard{}, DNSError},
		"private":             {public("10.0.0.5"), Guard{}, DNSForbiddenIP},
		"private beside":      {public(somewhere, "10.0.0.5"), Guard{}, DNSForbiddenIP},
		"private in IPv6":     {public(somewhere, "::ffff:10.0.0.5"), Guard{}, DNSForbiddenIP},
		"credentials":         {public("169.254.169.254"), networks(t, "0.0.0.0/0"), DNSForbiddenIP},
		"private, and opened": {public("10.0.0.5"), networks(t, "10.0.0.0/24"), Unreachable},
		"public":              {public(somewhere), Guard{}, Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialled := 0
			opts := &Options{Guard: tt.guard, Resolver: tt.resolver, Dial: func(context.Context, string, string) (net.Conn, error) {
				dialled++
				return nil, errors.New("nobody is there")
			}}
			err := deliver(t, opts, Config{})
			if faultOf(err) != tt.want || (dialled > 0) != (tt.want == Unreachable) {
				t.Errorf("%v, %d times dialled, want %s", err, dialled, tt.want)
			}
		})
	}
}

// A name is looked up unchanged, without the search domain of this machine. An address is not
// looked up.
func TestLookedUpName(t *testing.T) {
	t.Parallel()
	var asked []string
	opts := serve(t, func(http.ResponseWriter, *http.Request) {})
	opts.Resolver = names(func(ctx context.Context, host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		return public("::ffff:"+somewhere)(ctx, host)
	})
	if err := deliver(t, opts, Config{URL: "https://Hooks.Example.com./"}); err != nil || fmt.Sprint(asked) != "[hooks.example.com.]" {
		t.Errorf("%v, asked for %q", err, asked)
	}
	if err := deliver(t, opts, Config{URL: "https://" + somewhere + "/"}); faultOf(err) != TLS || len(asked) != 1 { // the certificate is for another address
		t.Errorf("%v, asked for %q", err, asked)
	}
}

// If a name has several addresses, the client tries the next one while there is time.
func TestNextAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		server := piped(func() string { return "HTTP/1.1 204 X\r\n\r\n" })
		opts := &Options{Resolver: public("fd00::1", "10.0.0.1", "10.0.0.2"), Guard: networks(t, "10.0.0.0/8", "fd00::/8"), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			tried = append(tried, address)
			if len(tried) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if len(tried) == 2 {
				return nil, errors.New("nobody is there")
			}
			return server(ctx, network, address)
		}}
		h := newHook(t, opts, HookConfig{URL: "http://policy.example.com/", Timeout: 15 * time.Second})
		if _, err := h.Handle(t.Context(), command); err != nil || fmt.Sprint(tried) != "[[fd00::1]:80 10.0.0.1:80 10.0.0.2:80]" {
			t.Errorf("%v, tried %v", err, tried)
		}
	})
}

// piped returns a Dial function whose server reads one request and replies, for tests with a fake
// clock.
func piped(reply func() string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			req, err := http.ReadRequest(bufio.NewReader(there))
			if err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(there, reply())
			}
			_ = there.Close()
		}()
		return here, nil
	}
}

// A name server cannot make the client dial thousands of addresses.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	tried := 0
	opts := &Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		tried++
		return nil, errors.New("nobody is there")
	}}
	opts.Resolver = public(slices.Repeat([]string{somewhere}, 5000)...)
	if err := deliver(t, opts, Config{}); faultOf(err) != Unreachable || tried != maxTries {
		t.Errorf("%v, tried %d of them, want %d", err, tried, maxTries)
	}
	opts.Resolver = public(append(slices.Repeat([]string{somewhere}, 5000), "10.0.0.1")...)
	if err := deliver(t, opts, Config{}); faultOf(err) != DNSForbiddenIP || tried != maxTries {
		t.Errorf("the last one is private: %v, tried %d", err, tried)
	}
}

// The caller can change the event again when Handle has returned.
//
// Proves: IC-57
func TestEventIsReadAtOnce(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	opts := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	})
	found := make(chan struct{})
	opts.Resolver = names(func(ctx context.Context, host string) ([]netip.Addr, error) {
		<-found
		return public(somewhere)(ctx, host)
	})
	client := NewClient(opts)
	w, err := client.Webhook(Config{URL: hookURL, Timeout: MaxTimeout})
	if err != nil {
		t.Fatal(err)
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}}
	if _, err := w.Handle(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	ev.Tool.Name = "Write"
	close(found)
	if body := <-bodies; !strings.Contains(body, `"tool":"Bash"`) {
		t.Errorf("the server was told %s", body)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// No delivery leaves a goroutine or a connection behind, whether it succeeds or fails.
//
// Proves: IC-57, IC-63
func TestNothingStays(t *testing.T) { // alone, since it counts all goroutines
	before := runtime.NumGoroutine()
	var open atomic.Int32
	over := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(make([]byte, 1<<20))
		case "/break":
			panic(http.ErrAbortHandler)
		case "/hang":
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	opts := &Options{
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, Resolver: public(somewhere),
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &closing{Conn: conn, open: &open}, nil
		},
		Failed: func(string, error) {},
	}
	client := NewClient(opts)
	for _, url := range []string{"https://hooks.example.com/", "https://hooks.example.com/large", "https://hooks.example.com/break", "https://hooks.example.com/hang", "https://hooks.example.net/"} {
		w, err := client.Webhook(Config{URL: url, Timeout: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		for range 10 {
			_, _ = w.Handle(gone, &grapnel.Event{Kind: grapnel.SessionStart})
		}
		cancel()
		_ = w.Deliver(gone, &grapnel.Event{Kind: grapnel.SessionStart})
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections are still open", n)
	}
	close(over)
	server.Close()
	server.Client().CloseIdleConnections()
	await.Until(t, "no more goroutines run than before", func() bool { return runtime.NumGoroutine() <= before })
}

// closing keeps a count of the open connections.
type closing struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *closing) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// The dialer checks the address when the socket exists, no matter where the address came from.
//
// Proves: IC-62, IC-69
func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, to := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		conn, err := dialer(func() Guard { return Guard{} }).DialContext(t.Context(), "tcp", net.JoinHostPort(to, port))
		if err == nil {
			_ = conn.Close()
		}
		if faultOf(err) != ForbiddenIP {
			t.Errorf("dialling %s: %v, want %s", to, err, ForbiddenIP)
		}
	}
	conn, err := dialer(func() Guard { return networks(t, "127.0.0.0/8") }).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("an address that was opened: %v", err)
	}
	_ = conn.Close()
}

// If only the networks are opened, the real resolver, dialer and server work together.
func TestRealDialer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	opts := &Options{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, Guard: networks(t, "127.0.0.0/8")}
	if err := deliver(t, opts, Config{URL: server.URL}); err != nil {
		t.Error(err)
	}
	if err := deliver(t, &Options{Guard: opts.Guard}, Config{URL: server.URL}); faultOf(err) != TLS {
		t.Errorf("a certificate that the system does not know: %v", err)
	}
	server.Close()
	if err := deliver(t, opts, Config{URL: server.URL}); faultOf(err) != Unreachable {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := NewClient(nil).Webhook(Config{URL: server.URL}); faultOf(err) != ForbiddenIP {
		t.Errorf("not opened: %v", err)
	}
}

// The client checks that the certificate is valid for the name in the URL.
func TestCertificates(t *testing.T) {
	t.Parallel()
	opts := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	if err := deliver(t, opts, Config{URL: "https://hooks.example.net/"}); faultOf(err) != TLS {
		t.Errorf("of another name: %v", err)
	}
	opts.RootCAs = nil
	if err := deliver(t, opts, Config{}); faultOf(err) != TLS {
		t.Errorf("of nobody we know: %v", err)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent in the clear") }))
	defer plain.Close()
	opts.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, plain.Listener.Addr().String())
	}
	if err := deliver(t, opts, Config{}); faultOf(err) != TLS {
		t.Errorf("none: %v", err)
	}
}

// If the caller of Handle cancels its context, the delivery continues. If the caller of Deliver
// does, the delivery ends.
func TestCancel(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}, 2), make(chan struct{})
	opts := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-over
	})
	var failed []error
	opts.Failed = func(_ string, err error) { failed = append(failed, err) }
	client := NewClient(opts)
	w, err := client.Webhook(Config{Name: "w", URL: hookURL, Timeout: MaxTimeout})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if out, err := w.Handle(ctx, &grapnel.Event{Kind: grapnel.SessionStart}); err != nil || out.Decision != grapnel.None {
		t.Errorf("%+v, %v", out, err)
	}
	<-arrived
	gone := errors.New("gone")
	go func() {
		<-arrived
		cancel(gone)
	}()
	if err := w.Deliver(ctx, &grapnel.Event{Kind: grapnel.SessionStart}); faultOf(err) != Unreachable || !errors.Is(err, gone) {
		t.Errorf("Deliver: %v, want that it was given up", err)
	}
	short, stop := context.WithTimeout(t.Context(), time.Millisecond) // must fire: a delivery hangs
	defer stop()
	if err := client.Close(short); err == nil {
		t.Error("Close does not wait")
	}
	close(over)
	if err := client.Close(t.Context()); err != nil || len(failed) != 0 {
		t.Errorf("Close: %v; failed: %v", err, failed)
	}
}

// At the limit of deliveries in flight, further deliveries are dropped and reported. Afterwards
// there is room again.
//
// Proves: IC-57, IC-65
func TestInFlight(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}), make(chan struct{})
	opts := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-over
		w.WriteHeader(http.StatusTeapot)
	})
	var mu sync.Mutex
	failed := map[Fault]int{}
	opts.Failed = func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed[faultOf(err)]++; name != "w" {
			t.Errorf("%s failed: %v", name, err)
		}
	}
	count := func(f Fault) int {
		mu.Lock()
		defer mu.Unlock()
		return failed[f]
	}
	client := NewClient(opts)
	w, err := client.Webhook(Config{Name: "w", URL: hookURL, MaxInFlight: 2, Timeout: MaxTimeout})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := grapnel.New([]grapnel.Spec{{Name: "w", Phase: grapnel.PhaseObserve, Hook: w}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}}
	fire := func() {
		if v := engine.Fire(t.Context(), ev); v.Decision != grapnel.None {
			t.Errorf("%+v, want no opinion", v)
		}
	}
	for range 2 {
		fire()
		<-arrived
	}
	for range 3 {
		fire()
	}
	if err := engine.Close(t.Context()); err != nil { // waits until all hooks were called
		t.Fatal(err)
	}
	if n := count(Dropped); n != 3 {
		t.Errorf("%d dropped, want 3", n)
	}
	close(over)
	if err := client.Close(t.Context()); err != nil || count(Refused) != 2 {
		t.Errorf("Close: %v; %v", err, failed)
	}
	if _, err := w.Handle(t.Context(), ev); err != nil || count(Dropped) != 4 {
		t.Errorf("after Close: %v, %v", err, failed)
	}
}

// Without Options.Failed, a failure is written to the log.
func TestFailuresAreLogged(t *testing.T) {
	var logs bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logs, nil)))
	defer slog.SetDefault(before)
	client := NewClient(&Options{Resolver: public("10.0.0.5")})
	w, err := client.Webhook(Config{Name: "w", URL: hookURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Handle(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart}); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := logs.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "webhook=w") || !strings.Contains(text, "10.0.0.5 is private") {
		t.Errorf("the log says %q", text)
	}
}
