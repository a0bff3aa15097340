package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// hooksPath is where agents ask over http, the agent's name behind it and the installation
// as ?installation=TOKEN.
const hooksPath = "/v1/hooks/"

// A Caller is an installation that may ask over http.
type Caller struct {
	Agent  string
	Secret string
	Root   string // of the installation; empty = it is known by its token
}

// HooksOptions are what a [HooksServer] works with. All are needed.
type HooksOptions struct {
	Host string // what it listens on, as 127.0.0.1:24100

	// Caller finds who may ask for an installation. A caller without a secret may not.
	Caller func(installation string) (Caller, bool)

	// Answer answers an event. Its error is told to the log; the answer holds all the same.
	Answer func(ctx context.Context, q *client.Question) (*client.Answer, error)

	Log *slog.Logger
}

const (
	bodyTime = 20 * time.Second // for an agent to send its event
	maxConns = 256              // at once

	refusedEvery = time.Second // one line of the log, at most
)

// HooksServer serves agents that ask over http. It is for a TCP port of this machine, which
// all its users and every web page can reach: who does not show the secret of an
// installation is told nothing, and no browser is answered.
func HooksServer(opts HooksOptions) *http.Server {
	return &http.Server{
		Handler:           &hooks{HooksOptions: opts},
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog:                     slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
		DisableGeneralOptionsHandler: true,
	}
}

type hooks struct {
	HooksOptions

	mu     sync.Mutex
	unsaid int // requests that were refused since
	said   time.Time
}

// refused tells the log, but not so often that whoever asks could fill a disk.
func (h *hooks) refused(status int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.said) < refusedEvery {
		h.unsaid++
		return
	}
	h.Log.Warn("a request over http was refused", "status", status, "why", why, "others_before", h.unsaid)
	h.said, h.unsaid = time.Now(), 0
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	q, status, why := h.question(w, r)
	if status != 0 {
		w.Header().Set("Connection", "close") // nothing more is read from whoever this is
		h.refused(status, why)
		http.Error(w, why, status)
		return
	}
	answer, err := h.Answer(r.Context(), q)
	if err != nil {
		h.Log.Error("an event over http was not judged", "agent", q.Agent, "error", err)
	}
	if answer == nil {
		http.Error(w, "no answer", http.StatusInternalServerError)
		return
	}
	body, err := overHTTP(answer)
	if err != nil {
		h.Log.Error("an answer cannot be given over http", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if len(answer.Stderr) > 0 {
		h.Log.Warn("said beside an answer over http", "text", string(bytes.TrimSpace(answer.Stderr)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// question reads what is asked, or says why nobody is answered. What the sender could have
// chosen is not repeated.
func (h *hooks) question(w http.ResponseWriter, r *http.Request) (q *client.Question, status int, why string) {
	agent, below := strings.CutPrefix(r.URL.Path, hooksPath)
	switch {
	case !h.here(r.Host): // a page whose name was made to lead here: DNS rebinding
		return nil, http.StatusMisdirectedRequest, "this is not the host"
	case fromBrowser(r.Header):
		return nil, http.StatusForbidden, "browsers are not answered"
	case !below || agent == "" || strings.Contains(agent, "/"):
		return nil, http.StatusNotFound, "there is nothing here"
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, "want a POST"
	case !isJSON(r): // what a form of a page can send without asking first is none
		return nil, http.StatusUnsupportedMediaType, "want application/json"
	}
	installation := r.URL.Query().Get("installation")
	caller, ok := h.Caller(installation)
	if !shows(r.Header, caller.Secret) || !ok || caller.Agent != agent {
		return nil, http.StatusUnauthorized, "this secret opens nothing"
	}
	payload, status, err := readBody(w, r, dialect.MaxPayload)
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return nil, status, "the event is too large"
	case err != nil:
		return nil, status, "the event did not arrive"
	}
	q = &client.Question{Payload: payload, ID: installation, Parent: r.Header.Get(client.HeaderParent)}
	if caller.Root != "" {
		q.ID, q.Root = "", caller.Root
	}
	return q, 0, ""
}

// here reports whether a host is the one that listens.
func (h *hooks) here(host string) bool {
	name, port, err := net.SplitHostPort(host)
	_, mine, _ := net.SplitHostPort(h.Host)
	return err == nil && port == mine && (name == "127.0.0.1" || strings.EqualFold(name, "localhost"))
}

// fromBrowser reports whether a browser sends a request: no agent adds these.
func fromBrowser(header http.Header) bool {
	for name := range header {
		if name == "Origin" || name == "Referer" || strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "Access-Control-") {
			return true
		}
	}
	return false
}

// shows reports whether a request shows a secret. It takes as long for a wrong one as for
// the right one, and for one that there is not.
func shows(header http.Header, secret string) bool {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	got, want := sha256.Sum256([]byte(values[0])), sha256.Sum256([]byte("Bearer "+secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && secret != ""
}

// overHTTP is the body of an answer over http, where exit codes do not exist: an answer
// that blocks by its exit code becomes JSON that blocks wherever that is understood, and
// ends the turn where it is not.
func overHTTP(a *client.Answer) ([]byte, error) {
	switch a.Exit {
	case 0:
		return a.Stdout, nil
	case 2:
		said := map[string]any{}
		if len(bytes.TrimSpace(a.Stdout)) > 0 {
			if err := json.Unmarshal(a.Stdout, &said); err != nil || said == nil {
				said = map[string]any{} // the block counts
			}
		}
		reason := strings.TrimSpace(string(a.Stderr))
		said["decision"], said["reason"] = "block", reason
		said["continue"], said["stopReason"] = false, reason
		return rawjson.Marshal(said)
	}
	return nil, errors.New("the event was not answered: " + strings.TrimSpace(string(a.Stderr)))
}

// ListenHooks listens for agents on this machine alone. No more than a number of them
// are connected at once: others wait.
func ListenHooks(host string) (net.Listener, error) {
	l, err := net.Listen("tcp4", host)
	if err != nil {
		return nil, err
	}
	return &fewer{Listener: l, room: make(chan struct{}, maxConns), closed: make(chan struct{})}, nil
}

// fewer is a listener with room for so many connections.
type fewer struct {
	net.Listener
	room   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *fewer) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &leaving{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *fewer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// leaving is a connection that makes room when it is closed.
type leaving struct {
	net.Conn
	leave func()
}

func (c *leaving) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// HTTPHealth is what a daemon says, under "http", of the port for agents.
type HTTPHealth struct {
	Address string `json:"address,omitempty"` // that it listens on
	Error   string `json:"error,omitempty"`   // why it does not
}

// Health asks the daemon of a socket how it does. Without one that answers it fails.
func Health(ctx context.Context, socket string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://grapnel/v1/health", nil)
	if err != nil {
		return err
	}
	resp, err := Client(socket, 2*time.Second).Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // which address stands for the socket concerns nobody
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable { // which has a body, too
		return errors.New("the daemon says " + resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(into)
}
