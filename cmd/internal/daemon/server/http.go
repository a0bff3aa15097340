package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// hooksPath is the first part of the path to which agents send events:
// /v1/hooks/AGENT?installation=TOKEN.
const hooksPath = "/v1/hooks/"

// A Caller is an installation that may send events over HTTP.
type Caller struct {
	Agent  string
	Secret string
	Root   string // of the installation; empty = its token identifies it
}

// HooksOptions configure a [HooksServer]. All are required.
type HooksOptions struct {
	Host string // the address of the listener, such as 127.0.0.1:24100

	// Caller returns the caller of an installation. A caller without a secret is refused.
	Caller func(installation string) (Caller, bool)

	// Answer replies to an event. The reply is valid even with an error, which is logged.
	Answer func(ctx context.Context, q *client.Question) (*client.Answer, error)

	Log *slog.Logger
}

const (
	bodyTime = 20 * time.Second // for an agent to send its event
	maxConns = 256

	refusalInterval = time.Second // between log lines about refused requests
)

// HooksServer serves clients over HTTP, on a TCP port of this machine. All users and every web
// page can reach the port, so it refuses requests without the secret of an installation, and
// requests of browsers. No part of the daemon opens such a port today: only tests use
// HooksServer and [ListenHooks].
func HooksServer(opts HooksOptions) *http.Server {
	return &http.Server{
		Handler:           &hooksHandler{HooksOptions: opts},
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog:                     slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
		DisableGeneralOptionsHandler: true,
	}
}

type hooksHandler struct {
	HooksOptions

	mu       sync.Mutex
	unlogged int // refusals since
	logged   time.Time
}

// logRefusal logs a refused request, but not so often that a client could fill the disk.
func (h *hooksHandler) logRefusal(status int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.logged) < refusalInterval {
		h.unlogged++
		return
	}
	h.Log.Warn("HTTP request refused", "status", status, "why", why, "others_before", h.unlogged)
	h.logged, h.unlogged = time.Now(), 0
}

func (h *hooksHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	q, status, why := h.question(w, r)
	if status != 0 {
		w.Header().Set("Connection", "close") // read nothing more from this client
		h.logRefusal(status, why)
		http.Error(w, why, status)
		return
	}
	answer, err := h.Answer(r.Context(), q)
	if err != nil {
		h.Log.Error("cannot answer an HTTP event", "agent", q.Agent, "error", err)
	}
	if answer == nil {
		http.Error(w, "no answer", http.StatusInternalServerError)
		return
	}
	body, err := overHTTP(answer)
	if err != nil {
		h.Log.Error("cannot convert a reply to HTTP", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if len(answer.Stderr) > 0 {
		h.Log.Warn("reply over HTTP has stderr text", "text", string(bytes.TrimSpace(answer.Stderr)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// question reads a request, or returns the status and the reason of a refusal. The reason
// repeats nothing that the client sent.
func (h *hooksHandler) question(w http.ResponseWriter, r *http.Request) (q *client.Question, status int, why string) {
	agent, below := strings.CutPrefix(r.URL.Path, hooksPath)
	switch {
	case !h.isOwn(r.Host): // DNS rebinding: a web page whose name resolves to this machine
		return nil, http.StatusMisdirectedRequest, "wrong Host header"
	case fromBrowser(r.Header):
		return nil, http.StatusForbidden, "requests from browsers are refused"
	case !below || agent == "" || strings.Contains(agent, "/"):
		return nil, http.StatusNotFound, "not found"
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, "method not allowed: use POST"
	case !isJSON(r): // a form of a web page cannot send JSON without a preflight request
		return nil, http.StatusUnsupportedMediaType, "Content-Type must be application/json"
	}
	installation := r.URL.Query().Get("installation")
	caller, ok := h.Caller(installation)
	if !hasSecret(r.Header, caller.Secret) || !ok || caller.Agent != agent {
		return nil, http.StatusUnauthorized, "invalid secret"
	}
	payload, status, err := readBody(w, r, dialect.MaxPayload)
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return nil, status, "the event is too large"
	case err != nil:
		return nil, status, "cannot read the event"
	}
	q = &client.Question{Payload: payload, ID: installation, Parent: r.Header.Get(client.HeaderParent)}
	if caller.Root != "" {
		q.ID, q.Root = "", caller.Root
	}
	return q, 0, ""
}

// isOwn reports whether a host is the address of the listener.
func (h *hooksHandler) isOwn(host string) bool {
	name, port, err := net.SplitHostPort(host)
	_, mine, _ := net.SplitHostPort(h.Host)
	return err == nil && port == mine && (name == "127.0.0.1" || strings.EqualFold(name, "localhost"))
}

// fromBrowser reports whether a request has a header that only browsers add.
func fromBrowser(header http.Header) bool {
	for name := range header {
		if name == "Origin" || name == "Referer" || strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "Access-Control-") {
			return true
		}
	}
	return false
}

// hasSecret compares the secret of a request in constant time, also if the secret is empty.
func hasSecret(header http.Header, secret string) bool {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	got, want := sha256.Sum256([]byte(values[0])), sha256.Sum256([]byte("Bearer "+secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && secret != ""
}

// overHTTP returns the body of an answer over HTTP, which has no exit codes. An answer that
// blocks by its exit code becomes JSON that blocks, and that ends the turn where an agent
// does not understand the block.
func overHTTP(a *client.Answer) ([]byte, error) {
	switch a.Exit {
	case 0:
		return a.Stdout, nil
	case 2:
		body := map[string]any{}
		if len(bytes.TrimSpace(a.Stdout)) > 0 {
			if err := json.Unmarshal(a.Stdout, &body); err != nil || body == nil {
				body = map[string]any{} // ignore the invalid JSON and block
			}
		}
		reason := strings.TrimSpace(string(a.Stderr))
		body["decision"], body["reason"] = "block", reason
		body["continue"], body["stopReason"] = false, reason
		return rawjson.Marshal(body)
	}
	return nil, errors.New("the event was not answered: " + strings.TrimSpace(string(a.Stderr)))
}

// ListenHooks listens for HTTP clients of this machine, on a loopback address such as
// 127.0.0.1:24100. Connections above maxConns wait. Only tests call it today.
func ListenHooks(host string) (net.Listener, error) {
	l, err := net.Listen("tcp4", host)
	if err != nil {
		return nil, err
	}
	return &limitedListener{Listener: l, slots: make(chan struct{}, maxConns), closed: make(chan struct{})}, nil
}

// limitedListener accepts as many connections as it has slots.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn releases its slot when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
