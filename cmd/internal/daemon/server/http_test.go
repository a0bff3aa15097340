package server

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

const (
	goodID     = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	rootID     = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
	openID     = "cccccccccccccccccccccccccc" // a caller without a secret
	goodSecret = "w5fo0g46WsIPPO_PdLiqh3asUaYUCZac0_F_R6_ZnjU"
)

// A guestbook is a server for HTTP hooks on its own port. It records the events.
type guestbook struct {
	host string
	log  *lockedBuffer

	mu     sync.Mutex
	asked  []client.Question
	answer func(ctx context.Context, q *client.Question) (*client.Answer, error)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func serveHooks(t *testing.T) *guestbook {
	t.Helper()
	l, err := ListenHooks("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guestbook{host: l.Addr().String(), log: &lockedBuffer{}}
	server := HooksServer(HooksOptions{
		Host: g.host,
		Caller: func(id string) (Caller, bool) {
			c, ok := map[string]Caller{
				goodID: {Agent: "claude-code", Secret: goodSecret}, rootID: {Agent: "claude-code", Secret: "other", Root: "/r"}, openID: {Agent: "claude-code"},
			}[id]
			return c, ok
		},
		Answer: func(ctx context.Context, q *client.Question) (*client.Answer, error) {
			g.mu.Lock()
			g.asked = append(g.asked, *q)
			answer := g.answer
			g.mu.Unlock()
			if answer != nil {
				return answer(ctx, q)
			}
			return &client.Answer{Stdout: []byte(`{"said":"yes"}`)}, nil
		},
		Log: slog.New(slog.NewTextHandler(g.log, nil)),
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return g
}

func (g *guestbook) questions() []client.Question {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// good returns a valid request.
func (g *guestbook) good(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.host+"/v1/hooks/claude-code?installation="+goodID, strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+goodSecret)
	return req
}

func send(t *testing.T, req *http.Request) (status int, header http.Header, body string) {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

func TestHooksAnswer(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	req := g.good(t)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Traceparent", "00-a-b-01")
	status, header, body := send(t, req)
	if status != http.StatusOK || body != `{"said":"yes"}` || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v %q", status, header, body)
	}
	req = g.good(t)
	req.URL.RawQuery = "installation=" + rootID
	req.Host = strings.Replace(g.host, "127.0.0.1", "localhost", 1)
	req.Header.Set("Authorization", "Bearer other")
	if status, _, body := send(t, req); status != http.StatusOK {
		t.Errorf("got %d %q", status, body)
	}
	want := []client.Question{{ID: goodID, Payload: []byte(`{"a":1}`), Parent: "00-a-b-01"}, {Root: "/r", Payload: []byte(`{"a":1}`)}}
	if diff := cmp.Diff(want, g.questions()); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
	if logged := g.log.String(); strings.Contains(logged, goodSecret) {
		t.Errorf("the log has the secret: %s", logged)
	}
}

// Requests without the secret, and all requests that a web page can send, are refused without any
// information.
func TestHooksRefuse(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	port := g.host[strings.LastIndex(g.host, ":"):]
	tests := map[string]struct {
		with   func(*http.Request)
		status int
	}{
		"no secret":                   {func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"a wrong secret":              {header("Authorization", "Bearer "+goodSecret[1:]), 401},
		"the secret and more":         {header("Authorization", "Bearer "+goodSecret+"x"), 401},
		"an empty secret":             {header("Authorization", "Bearer "), 401},
		"the secret by itself":        {header("Authorization", goodSecret), 401},
		"two secrets":                 {func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+goodSecret) }, 401},
		"the secret of another":       {func(r *http.Request) { r.URL.RawQuery = "installation=" + rootID }, 401},
		"no installation":             {func(r *http.Request) { r.URL.RawQuery = "" }, 401},
		"an installation with a path": {func(r *http.Request) { r.URL.RawQuery = "installation=../../x" }, 401},
		"a caller without a secret": {func(r *http.Request) {
			r.URL.RawQuery = "installation=" + openID
			r.Header.Set("Authorization", "Bearer ")
		}, 401},
		"another agent":           {func(r *http.Request) { r.URL.Path = "/v1/hooks/codex" }, 401},
		"Origin":                  {header("Origin", "https://example.com"), 403},
		"Origin of this host":     {header("Origin", "http://"+g.host), 403},
		"Origin null":             {header("Origin", "null"), 403},
		"Referer":                 {header("Referer", "https://example.com/"), 403},
		"a fetch of a page":       {header("Sec-Fetch-Mode", "no-cors"), 403},
		"a question before":       {func(r *http.Request) { r.Method = "OPTIONS"; r.Header.Set("Access-Control-Request-Method", "POST") }, 403},
		"OPTIONS":                 {func(r *http.Request) { r.Method = "OPTIONS" }, 405},
		"GET":                     {func(r *http.Request) { r.Method, r.Body, r.ContentLength = "GET", nil, 0 }, 405},
		"PUT":                     {func(r *http.Request) { r.Method = "PUT" }, 405},
		"a form":                  {header("Content-Type", "application/x-www-form-urlencoded"), 415},
		"text":                    {header("Content-Type", "text/plain"), 415},
		"text that looks like it": {header("Content-Type", "text/plain; application/json"), 415},
		"no content type":         {func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		"another host":            {func(r *http.Request) { r.Host = "evil.example.com" + port }, 421},
		"a host that leads here":  {func(r *http.Request) { r.Host = "127.0.0.1.nip.io" + port }, 421},
		"another port":            {func(r *http.Request) { r.Host = "127.0.0.1:1" }, 421},
		"no port":                 {func(r *http.Request) { r.Host = "127.0.0.1" }, 421},
		"another loopback":        {func(r *http.Request) { r.Host = "127.0.0.2" + port }, 421},
		"version 6":               {func(r *http.Request) { r.Host = "[::1]" + port }, 421},
		"the other routes":        {func(r *http.Request) { r.URL.Path = "/v1/answer" }, 404},
		"records":                 {func(r *http.Request) { r.URL.Path = "/v1/records" }, 404},
		"the top":                 {func(r *http.Request) { r.URL.Path = "/" }, 404},
		"no agent":                {func(r *http.Request) { r.URL.Path = "/v1/hooks/" }, 404},
		"a way up":                {func(r *http.Request) { r.URL.Path = "/v1/hooks/../answer" }, 404},
		"a way down":              {func(r *http.Request) { r.URL.Path = "/v1/hooks/claude-code/x" }, 404},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := g.good(t)
			tt.with(req)
			status, header, body := send(t, req)
			if status != tt.status {
				t.Errorf("got %d %q, want %d", status, body, tt.status)
			}
			for name := range header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("it has %s: %s", name, header.Get(name))
				}
			}
			for _, secret := range []string{goodSecret, "evil", "said"} {
				if strings.Contains(body, secret) {
					t.Errorf("the answer says %q", body)
				}
			}
		})
	}
	t.Cleanup(func() {
		if asked := g.questions(); len(asked) != 0 {
			t.Errorf("these were answered: %+v", asked)
		}
	})
}

// The server does not wait for requests that are endless or too large, and does not answer
// requests that are not HTTP.
func TestHooksRawRequests(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	head := "POST /v1/hooks/claude-code?installation=" + goodID + " HTTP/1.1\r\nHost: " + g.host + "\r\nContent-Type: application/json\r\nAuthorization: Bearer "
	for name, tt := range map[string]struct{ request, want string }{
		"too large, by its word":   {head + goodSecret + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", dialect.MaxPayload+1), "HTTP/1.1 413"},
		"too large without secret": {head + fmt.Sprintf("x\r\nContent-Length: %d\r\n\r\n", dialect.MaxPayload+1), "HTTP/1.1 401"},
		"two hosts":                {head + goodSecret + "\r\nHost: evil.example.com\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 400"},
		"two lengths":              {head + goodSecret + "\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 400"},
		"length and chunks":        {head + goodSecret + "\r\nContent-Length: 2\r\nTransfer-Encoding: chunked, identity\r\n\r\n{}", "HTTP/1.1 501"},
		"a large header":           {head + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		"a whole address":          {"POST http://evil.example.com/v1/hooks/claude-code?installation=" + goodID + head[strings.Index(head, " HTTP"):] + goodSecret + "\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 421"},
		"a tunnel":                 {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", "HTTP/1.1 421"},
		"no HTTP":                  {"\x16\x03\x01\x00\xa5\x01\r\n\r\n", "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", g.host)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(await.Limit))
			go func() { _, _ = io.WriteString(conn, tt.request) }()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if !strings.HasPrefix(line, tt.want) {
				t.Errorf("got %q, %v, want %s", line, err, tt.want)
			}
		})
	}
	t.Cleanup(func() {
		if asked := g.questions(); len(asked) != 0 {
			t.Errorf("these were answered: %+v", asked)
		}
	})
}

// An endless event is cut off at the size limit.
func TestHooksEndlessBody(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	req := g.good(t)
	req.Body, req.ContentLength = io.NopCloser(io.LimitReader(endless{}, dialect.MaxPayload+2)), -1
	if status, _, body := send(t, req); status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %q", status, body)
	}
	if asked := g.questions(); len(asked) != 0 {
		t.Errorf("%d were answered", len(asked))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Many refused requests do not fill the log.
func TestHooksLogStaysSmall(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	for range 200 {
		req := g.good(t)
		req.Header.Del("Authorization")
		send(t, req)
	}
	if n := strings.Count(g.log.String(), "\n"); n == 0 || n > 20 {
		t.Errorf("%d lines:\n%s", n, g.log)
	}
}

// The answer to a failed event is sent, and the log contains the failure.
func TestHooksAnswerOfAFailure(t *testing.T) {
	t.Parallel()
	g := serveHooks(t)
	g.answer = func(context.Context, *client.Question) (*client.Answer, error) {
		return &client.Answer{Stdout: []byte(`{"decision":"block"}`), Stderr: []byte("grapnel: error: so it is\n")}, errors.New("not judged: so it is")
	}
	status, _, body := send(t, g.good(t))
	if status != http.StatusOK || body != `{"decision":"block"}` || !strings.Contains(g.log.String(), "not judged: so it is") {
		t.Errorf("got %d %q, log %s", status, body, g.log)
	}
	g.answer = func(context.Context, *client.Question) (*client.Answer, error) { return nil, errors.New("nothing") }
	if status, _, body := send(t, g.good(t)); status != http.StatusInternalServerError {
		t.Errorf("got %d %q", status, body)
	}
}

func TestOverHTTP(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer client.Answer
		want   string // empty = an error
	}{
		"JSON as it is":             {client.Answer{Stdout: []byte("{\"a\": 1}\n"), Stderr: []byte("x")}, "{\"a\": 1}\n"},
		"a block by exit code":      {client.Answer{Exit: 2, Stderr: []byte("not <today>\n")}, `{"continue":false,"decision":"block","reason":"not <today>","stopReason":"not <today>"}`},
		"beside a message":          {client.Answer{Exit: 2, Stdout: []byte(`{"systemMessage":"m","continue":true}`), Stderr: []byte("no\n")}, `{"continue":false,"decision":"block","reason":"no","stopReason":"no","systemMessage":"m"}`},
		"beside what is no object":  {client.Answer{Exit: 2, Stdout: []byte("null"), Stderr: []byte("no")}, `{"continue":false,"decision":"block","reason":"no","stopReason":"no"}`},
		"a block without a reason":  {client.Answer{Exit: 2}, `{"continue":false,"decision":"block","reason":"","stopReason":""}`},
		"a failure is no answer":    {client.Answer{Exit: 1, Stderr: []byte("broken")}, ""},
		"so is a word nobody knows": {client.Answer{Exit: 64, Stdout: []byte(`{}`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := overHTTP(&tt.answer)
			if (err != nil) != (tt.want == "") || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
			if tt.want != "" && !json.Valid(got) {
				t.Errorf("no JSON: %s", got)
			}
		})
	}
}

// A client that connects and sends nothing uses a connection only for a limited time, and not
// after the end of the server.
func TestListenHooksMakesRoom(t *testing.T) {
	t.Parallel()
	l, err := ListenHooks("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	few := l.(*limitedListener)
	few.slots = make(chan struct{}, 1)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first, second := dial(), dial()
	defer first.Close()
	defer second.Close()
	one, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 2)
	go func() {
		conn, err := l.Accept()
		accepted <- err
		if err == nil {
			_, err = l.Accept() // no connection is free
			accepted <- err
			_ = conn.Close()
		}
	}()
	select {
	case err := <-accepted:
		t.Fatalf("a second was let in: %v", err)
	case <-time.After(50 * time.Millisecond): // must fire: there is no room
	}
	_ = one.Close()
	_ = one.Close() // frees one connection
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if len(few.slots) != 1 {
		t.Errorf("%d have room", len(few.slots))
	}
	_ = l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	_ = l.Close()
}
