//go:build linux || darwin

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// dial returns a raw connection to a new server.
func dial(t *testing.T, opts Options) (net.Conn, *bufio.Reader) {
	t.Helper()
	socket := socketOf(t)
	serveOn(t, socket, opts)
	conn, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	return conn, bufio.NewReader(conn)
}

// The daemon uses the same values.
const (
	headTime = 5 * time.Second
	idleTime = time.Minute
)

// request is the beginning of a question.
const request = "POST " + client.Path + " HTTP/1.1\r\nHost: x\r\n"

// question returns a question in the format of package client.
func question(version, payload string, more ...string) string {
	lines := append([]string{"Content-Type: application/octet-stream", fmt.Sprintf("Content-Length: %d", len(payload)), "Grapnel-Version: " + version}, more...)
	return request + strings.Join(lines, "\r\n") + "\r\n\r\n" + payload
}

func readReply(t *testing.T, r *bufio.Reader) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Requests on one connection are answered in order: questions in the form of package client, the
// same with other headers, and pages.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	conn, r := dial(t, Options{Version: "v", Answer: func(_ context.Context, q *client.Question) (*client.Answer, error) {
		if q.Agent == "self" {
			return nil, client.ErrSelf
		}
		return &client.Answer{Stdout: q.Payload, Stderr: []byte("; " + q.Agent + " " + strings.Join(q.Policies, ","))}, nil
	}})
	for _, tt := range []struct {
		sent, want string
		status     int
	}{
		{question("v/"+client.Version, "one"), "one;  ", 200},
		{question("v/"+client.Version, "two", "Grapnel-Agent: a%20b", "Grapnel-Policy: %2Fx", "Grapnel-Policy: y"), "two; a b /x,y", 200},
		{question("v/"+client.Version, strings.Repeat("long", 20000)), strings.Repeat("long", 20000) + ";  ", 200},
		{question("old/"+client.Version, "three"), "this daemon has version v/" + client.Version + "\n", 409},
		{question("v/"+client.Version, "four", "Grapnel-Agent: self"), client.ErrSelf.Error() + "\n", 409},
		{question("v/"+client.Version, ""), ";  ", 200},
		{question("v/"+client.Version, "five", "X-Other: header"), "five;  ", 200},
		{"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", `{"version":"v"}` + "\n", 200},
		{question("v/"+client.Version, "six"), "six;  ", 200},
	} {
		at := max(0, strings.Index(tt.sent, "\r\n\r\n")+2) // send it in two pieces
		for _, part := range []string{tt.sent[:at], tt.sent[at:]} {
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		if status, body := readReply(t, r); status != tt.status || body != tt.want {
			t.Errorf("%.80q is answered with %d %.80q, want %d %.80q", tt.sent, status, body, tt.status, tt.want)
		}
	}
}

// Heads in other forms than package client's are also answered.
func TestOtherHeads(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sent   string
		status int
	}{
		"no length":         {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nGrapnel-Version: v/1\r\n\r\n", 200},
		"in chunks":         {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nGrapnel-Version: v/1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200},
		"both":              {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: nonsense\r\n\r\nhi", 501},
		"two lengths":       {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", 400},
		"odd length":        {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n", 400},
		"encoded length":    {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: %32\r\n\r\nhi", 400},
		"too large":         {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nhi", 413},
		"a NUL":             {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nGrapnel-Agent: a\x00b\r\n\r\nhi", 400},
		"odd word":          {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nGrapnel-Agent: %zz\r\n\r\n", 400},
		"folded":            {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n more\r\n\r\n", 400},
		"another method":    {"PUT /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405},
		"another path":      {"POST /v1/answers HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"too long a head":   {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nGrapnel-Agent: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", 431},
		"no HTTP":           {"hello\r\n\r\n", 400},
		"a version of old":  {"POST /v1/answer HTTP/1.0\r\nGrapnel-Version: v/1\r\nContent-Length: 0\r\n\r\n", 200},
		"of another size":   {"post /v1/answer HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		"a sign":            {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\nhi", 400},
		"in JSON, in short": {"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, r := dial(t, Options{Version: "v", Answer: echo})
			go func() { _, _ = io.WriteString(conn, tt.sent) }()
			if status, body := readReply(t, r); status != tt.status {
				t.Errorf("%.80q is answered with %d %.80q, want %d", tt.sent, status, body, tt.status)
			}
		})
	}
}

// A request that other implementations could read as two, or as another request, ends where
// net/http ends it.
func TestOneReading(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ head, body, want string }{
		"an LF before chunks": {"Accept: x\nTransfer-Encoding: chunked", "2\r\nhi\r\n0\r\n\r\n", "hi"},
		"both lengths":        {"Content-Length: 3\r\nTransfer-Encoding: chunked", "2\r\nhi\r\n0\r\n\r\n", "hi"},
		"an LF before a name": {"Content-Length: 2\r\nAccept: x\nGrapnel-Agent: b", "hi", "hi b"},
		"two names":           {"Content-Length: 2\r\nGrapnel-Agent: a\r\nGrapnel-Agent: b", "hi", "hi a"},
		"one length, twice":   {"Content-Length: 2\r\nContent-Length: 2", "hi", "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, r := dial(t, Options{Version: "v", Answer: func(_ context.Context, q *client.Question) (*client.Answer, error) {
				return &client.Answer{Stdout: []byte(strings.TrimSpace(string(q.Payload) + " " + q.Agent))}, nil
			}})
			sent := request + "Content-Type: application/octet-stream\r\nGrapnel-Version: v/1\r\n" + tt.head + "\r\n\r\n" + tt.body
			for _, sent := range []string{sent, question("v/"+client.Version, "next")} {
				if _, err := io.WriteString(conn, sent); err != nil {
					t.Fatal(err)
				}
			}
			if status, body := readReply(t, r); status != 200 || body != tt.want {
				t.Errorf("%q is answered with %d %q, want %q", sent, status, body, tt.want)
			}
			if name == "both lengths" { // net/http stops there too
				return
			}
			if status, body := readReply(t, r); status != 200 || body != "next" {
				t.Errorf("the request behind %q is answered with %d %q", sent, status, body)
			}
		})
	}
}

// pipes is a listener for connections within the process, so that a test can use a fake clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// A slow client cannot keep a connection open forever: not in the head, not in the body, and not
// by not reading the answer.
//
// chaos: clients
func TestSlowOnes(t *testing.T) {
	t.Parallel()
	const length = "Content-Length: 100\r\n"
	for name, tt := range map[string]struct {
		sent string
		more string // sent repeatedly
		most time.Duration
	}{
		"silence":              {"", "", headTime},
		"a head in pieces":     {request, "A", headTime},
		"another head":         {"GET /v1/health HTTP/1.1\r\n", "A", 2 * headTime},
		"a body in pieces":     {request + "Grapnel-Version: v/1\r\n" + length + "\r\n", "{", bodyTime},
		"an answer, not read":  {question("v/"+client.Version, "x"), "", writeTime},
		"chunks":               {request + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n{\r\n", bodyTime},
		"a request, in pieces": {"POST /v1/deliveries/retry HTTP/1.1\r\nHost: x\r\n" + length + "\r\n", "[", bodyTime},
		"another, in pieces":   {"POST /v1/deliveries/on HTTP/1.1\r\nHost: x\r\n" + length + "\r\n", "[", bodyTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				opts := Options{Version: "v", Answer: echo}
				opts.WithQueue(nil) // no request reaches the queue
				server := NewServer(opts, &http.Server{ReadHeaderTimeout: headTime, IdleTimeout: idleTime})
				served := make(chan error, 1)
				go func() { served <- server.Serve(p) }()
				conn := p.dial()
				begun := time.Now()
				if name != "an answer, not read" {
					go func() { _, _ = io.Copy(io.Discard, conn) }()
				}
				_, err := io.WriteString(conn, tt.sent)
				for err == nil && time.Since(begun) < time.Hour {
					time.Sleep(time.Second)
					_, err = io.WriteString(conn, tt.more)
					if tt.more == "" {
						_ = conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
						if _, err = conn.Write([]byte("x")); errors.Is(err, os.ErrDeadlineExceeded) {
							err = nil // the client does not read, but the connection is open
						}
					}
				}
				if took := time.Since(begun); took > tt.most+2*time.Second {
					t.Errorf("the connection is closed after %v, want %v", took, tt.most)
				}
				_ = conn.Close()
				if err := server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

// When the time for Shutdown is over, nothing continues: neither an endless answer nor an answer
// that the client does not read.
func TestShutdownCutsOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sent  string
		reads bool
	}{
		"an answer":           {question("v/"+client.Version, "x"), true},
		"an answer, not read": {question("v/"+client.Version, "x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				server := NewServer(Options{Version: "v", Answer: func(ctx context.Context, _ *client.Question) (*client.Answer, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}, &http.Server{})
				served := make(chan error, 1)
				go func() { served <- server.Serve(p) }()
				conn := p.dial()
				defer conn.Close()
				if tt.reads {
					go func() { _, _ = io.Copy(io.Discard, conn) }()
				}
				if _, err := io.WriteString(conn, tt.sent); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown = %v, want %v", err, context.DeadlineExceeded)
				}
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve = %v", err)
				}
				if took := time.Since(begun); took > 3*time.Second {
					t.Errorf("it ends after %v", took)
				}
			})
		})
	}
}

// A program that gets a slow answer receives signs of progress. When it disconnects, the work on
// its answer ends.
//
// chaos: clients
func TestGoneWhileSlow(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	conn, r := dial(t, Options{Version: "v", Answer: func(ctx context.Context, _ *client.Question) (*client.Answer, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	if _, err := io.WriteString(conn, question("v/"+client.Version, "x")); err != nil {
		t.Fatal(err)
	}
	if status, _ := readReply(t, r); status != http.StatusProcessing {
		t.Fatalf("status %d, want %d", status, http.StatusProcessing)
	}
	_ = conn.Close()
	if err := await.Receive(t, "the end of the work", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the work ends with %v, want %v", err, context.Canceled)
	}
}

// Shutdown waits for current answers, and for no other connection.
func TestShutdown(t *testing.T) {
	t.Parallel()
	socket := socketOf(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(Options{Version: "v", Answer: func(_ context.Context, q *client.Question) (*client.Answer, error) {
		if string(q.Payload) == "slow" {
			close(begun)
			<-goOn
		}
		return &client.Answer{Stdout: q.Payload}, nil
	}}, &http.Server{ReadHeaderTimeout: time.Minute})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var conns [2]net.Conn // one that waits for its next question, one without a question so far
	for i := range conns {
		if conns[i], err = Dial(t.Context(), socket); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	if _, err := io.WriteString(conns[0], question("v/"+client.Version, "x")); err != nil {
		t.Fatal(err)
	}
	if status, body := readReply(t, bufio.NewReader(conns[0])); status != 200 || body != "x" {
		t.Fatalf("answer %d %q", status, body)
	}
	asked := make(chan error, 1)
	asking, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	if _, err := io.WriteString(asking, question("v/"+client.Version, "slow")); err != nil {
		t.Fatal(err)
	}
	go func() {
		text, err := io.ReadAll(asking)
		if err == nil && !strings.HasSuffix(string(text), "\r\n\r\nslow") {
			err = fmt.Errorf("answer %q", text)
		}
		asked <- err
	}()
	<-begun
	shut := make(chan error, 1)
	go func() { shut <- server.Shutdown(t.Context()) }()
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(await.Limit))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection that nothing is done on: %v, want %v", err, io.EOF)
		}
	}
	select {
	case err := <-shut:
		t.Fatalf("Shutdown = %v while an answer is on its way", err)
	default:
	}
	close(goOn)
	if err := errors.Join(<-asked, <-shut); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve = %v", err)
	}
}
