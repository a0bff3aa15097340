// Package web serves the browser page of a daemon on loopback:
//
//	site, err := web.New(web.Options{Source: source, File: file, Log: log})
//	link, err := site.Link() // listens, and returns a link that is valid once
//	err = site.Shutdown(ctx)
//
// Every response needs a cookie that such a link has set. All pages are complete without
// JavaScript, which adds live updates. The package decides nothing about events, and all that it
// shows is masked, as stored.
package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

//go:embed static
var static embed.FS

//go:embed templates
var templates embed.FS

// Options are the parts of a Site.
type Options struct {
	Source   Source
	Inbox    Inbox           // nil = the pages are about many machines, and read only
	File     string          // where the port and the known browsers are stored
	Stopping <-chan struct{} // closed when the daemon is about to stop; streams end then
	Log      *slog.Logger
	Now      func() time.Time // nil = time.Now
}

// A Site serves the pages. It is safe for concurrent use.
type Site struct {
	Options
	logins  *logins
	handler http.Handler

	counting sync.Mutex
	counted  *summary // guarded by counting

	mu     sync.Mutex
	server *http.Server // nil = not listening
}

// New returns a Site that does not listen yet. If a browser is known from an earlier run, it
// listens on the same port, so that open pages continue to work.
func New(opts Options) *Site {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Site{Options: opts, counted: &summary{}}
	var err error
	if s.logins, err = newLogins(opts.File, opts.Now); err != nil {
		opts.Log.Warn("the browser page knows no browsers", "error", err)
	}
	s.handler = s.routes()
	if port, known := s.logins.port(); known {
		if err := s.listen(port); err != nil {
			opts.Log.Warn("the browser page waits for \"grapnel ui\"", "error", err)
		}
	}
	return s
}

// Link returns a link to the pages that logs a browser in once. It listens first, if the Site does
// not listen yet.
func (s *Site) Link() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tries := 0; s.server == nil; tries++ {
		port, _ := s.logins.port()
		if tries > 0 {
			port = 0 // the stored port is taken
		}
		if err := s.listen(port); err != nil && tries > 3 {
			return "", fmt.Errorf("cannot listen for browsers: %w", err)
		}
	}
	port, _ := s.logins.port()
	return fmt.Sprintf("http://localhost:%d/login?token=%s", port, s.logins.token()), nil
}

// listen serves the pages on a port of both loopback addresses; 0 = any port. The caller holds mu,
// except in New.
func (s *Site) listen(port int) error {
	listeners := make([]net.Listener, 0, 2)
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil && (host == "127.0.0.1" || errors.Is(err, syscall.EADDRINUSE)) { // another program would get the links
			for _, other := range listeners {
				_ = other.Close()
			}
			return err
		}
		if err == nil { // otherwise the machine has no IPv6
			listeners = append(listeners, l)
			port = l.Addr().(*net.TCPAddr).Port
		}
	}
	if err := s.logins.setPort(port); err != nil {
		s.Log.Warn("cannot store the port of the browser page", "error", err)
	}
	s.server = &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	for _, l := range listeners {
		go func() { _ = s.server.Serve(l) }() // ends in Shutdown
	}
	s.Log.Info("browser page listening", "port", port)
	return nil
}

// Shutdown waits for the responses in progress and stops listening. If ctx ends first, it closes
// all connections.
func (s *Site) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	return err
}

// Confirm lets the browser that shows a code approve calls. It returns the browser's name. The
// caller must have checked that a person runs the client.
func (s *Site) Confirm(code string) (string, error) { return s.logins.confirm(code) }

// routes returns the handler of all routes, with the checks that precede them.
func (s *Site) routes() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	open := http.NewServeMux()
	open.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(files)))
	open.HandleFunc("/login", s.login)
	known := http.NewServeMux()
	handlers := map[string]http.HandlerFunc{
		"GET /{$}": s.overview, "GET /events": s.events, "GET /events/stream": s.stream, "GET /sessions": s.sessions, "GET /session": s.session, "GET /records/{id}": s.record,
	}
	if s.Inbox == nil {
		handlers["GET /machines"] = s.machines
	} else {
		maps.Copy(handlers, map[string]http.HandlerFunc{
			"GET /policy": s.policy, "GET /deliveries": s.deliveries, "POST /deliveries/retry": s.retry,
			"GET /approvals": s.approvals, "GET /approvals/stream": s.inboxStream, "POST /approvals/code": s.askCode, "POST /approvals/answer": s.answer, "POST /approvals/revoke": s.revoke,
			"GET /approvals/rule": s.rule, "POST /approvals/rule": s.makeRule,
		})
	}
	for pattern, handler := range handlers {
		known.HandleFunc(pattern, handler)
	}
	open.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.browser(r); !ok {
			s.refuse(w, "This browser is not logged in.")
			return
		}
		known.ServeHTTP(w, r)
	})
	checked := http.NewCrossOriginProtection().Handler(open)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !s.isOwn(r.Host) { // DNS rebinding: a web page whose name resolves to this machine
			http.Error(w, "wrong Host header", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		checked.ServeHTTP(w, r)
	})
}

// isOwn reports whether a host is an address of the Site.
func (s *Site) isOwn(host string) bool {
	port, _ := s.logins.port()
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if host == net.JoinHostPort(name, strconv.Itoa(port)) {
			return true
		}
	}
	return false
}

// A view is the data of a page.
type view struct {
	Title string
	Path  string // of the entry in the navigation
	Error string // why the page is incomplete
	Hint  string
	Open  int  // requests that wait for a person
	Many  bool // the pages are about many machines
	Data  any
}

// Links returns the entries of the navigation.
func (v *view) Links() [][2]string {
	if v.Many {
		return [][2]string{{"/", "Overview"}, {"/machines", "Machines"}, {"/events", "Events"}, {"/sessions", "Sessions"}}
	}
	return [][2]string{{"/", "Overview"}, {"/approvals", "Approvals"}, {"/events", "Events"}, {"/sessions", "Sessions"}, {"/policy", "Policy"}, {"/deliveries", "Deliveries"}}
}

// pages parses the templates of all pages when the first page is shown.
var pages = sync.OnceValue(func() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"overview", "events", "sessions", "session", "record", "policy", "deliveries", "approvals", "rule", "machines", "message"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return all
})

// show writes a page, with a note if errs make it incomplete.
func (s *Site) show(w http.ResponseWriter, status int, name string, v *view, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		v.Error = strings.TrimSpace(err.Error() + "\n" + cli.HintOf(err))
	}
	v.Many = s.Inbox == nil
	if v.Path != "" && !v.Many {
		open, _ := s.Inbox.Pending(s.Now()) // the page of approvals shows the error
		v.Open = len(open)
	}
	var b bytes.Buffer
	if err := pages()[name].Execute(&b, v); err != nil {
		s.Log.Error("cannot write a page", "page", name, "error", err)
		http.Error(w, "the page cannot be shown: see \"grapnel daemon logs\"", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
