package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/hooks"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`

// testSource is a log and a queue, and fixed answers for the rest.
type testSource struct {
	*index.Index
	*queue.Queue
}

func (s testSource) Totals(ctx context.Context, since time.Time) (stats.Totals, error) {
	count, err := s.Count(ctx, since)
	return count.Totals(), err
}

func (testSource) Policies(context.Context, string) (Policies, error) {
	return Policies{
		Files: []load.Loaded{{File: "/x/" + hostile + ".yaml", Scope: "user", State: "valid", Hooks: 1}},
		Hooks: []hooks.Hook{{Hook: "/x/grapnel.yaml::guard", Name: "guard", Source: "/x/grapnel.yaml", File: "/x/grapnel.yaml", Line: 7, Reason: hostile, State: hooks.Observe}},
	}, nil
}

func (testSource) Explain(context.Context, string) (Explanation, error) {
	return Explanation{Text: "event " + hostile, Stdout: hostile}, nil
}

func (testSource) Machines(context.Context) ([]Machine, error) {
	return []Machine{{Name: "machine", Version: "1", PID: 1, Problems: []string{hostile}}}, nil
}

// testInbox is the inbox of a place whose user has one open request.
type testInbox struct{ approval.Store }

func (i testInbox) Call(r *approval.Request) (*allow.Call, error) {
	e := &spool.Entry{}
	e.Agent, e.Tool = "claude-code", "Bash"+hostile
	return &allow.Call{Entry: e, Text: "git push " + hostile, Request: r, Hooks: []allow.Hook{{Name: hostile, Decision: grapnel.Ask}}}, nil
}

func (i testInbox) Decide(id string, d allow.Decision) (*approval.Answer, bool, error) {
	a := &approval.Answer{State: approval.Denied, By: "ada", Reason: d.Reason, Time: time.Now(), Waited: true}
	if d.Yes {
		a.State = approval.Approved
	}
	return i.Answer(id, a)
}

func (i testInbox) Grants() ([]approval.Grant, error) { return i.List(time.Now()) }

func (i testInbox) Propose(_ context.Context, id string) (*allow.Rule, error) {
	if _, err := i.Request(id); err != nil {
		return nil, err
	}
	return &allow.Rule{Command: hostile, Digest: "seen", Files: []allow.Edit{{File: hostile, Diff: "-a\n+" + hostile}}}, nil
}

func (i testInbox) Write(*allow.Rule) error { return nil }

func (i testInbox) Settle(*allow.Rule) {}

func (i testInbox) Revoke(string) error { return nil }

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a Site, its log and its queue.
type fixture struct {
	*Site
	log   *index.Index
	queue *queue.Queue
	inbox testInbox
	clock *clock
	base  string
}

// open returns a Site that listens, with a number of Records.
func open(t *testing.T, records int) *fixture {
	t.Helper()
	f := &fixture{log: follow(t), inbox: testInbox{approval.Store(filepath.Join(t.TempDir(), "approvals"))}, clock: &clock{now: time.Now()}}
	for i := range records {
		f.put(t, i, "rm -rf build "+hostile)
	}
	f.start(t, filepath.Join(t.TempDir(), "ui.json"))
	return f
}

// follow returns an Index that runs.
func follow(t *testing.T) *index.Index {
	t.Helper()
	dir := t.TempDir()
	log := index.Log{State: filepath.Join(dir, "state"), Index: filepath.Join(dir, "index")}
	if err := os.MkdirAll(log.State, 0o700); err != nil {
		t.Fatal(err)
	}
	x, err := log.Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, x.Close()); err != nil {
			t.Error(err)
		}
	})
	return x
}

// start makes a Site with a file, and lets it listen.
func (f *fixture) start(t *testing.T, file string) {
	t.Helper()
	stopping := make(chan struct{})
	q, err := queue.Open(filepath.Join(t.TempDir(), "queue"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	f.queue = q
	f.Site = New(Options{Source: testSource{f.log, f.queue}, Inbox: f.inbox, File: file, Stopping: stopping, Log: slog.New(slog.DiscardHandler), Now: f.clock.Now})
	t.Cleanup(func() {
		close(stopping)
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	link, err := f.Link()
	if err != nil {
		t.Fatal(err)
	}
	f.base = link[:strings.Index(link, "/login")]
}

// put stores a Record.
func (f *fixture) put(t *testing.T, i int, command string) {
	t.Helper()
	e := spool.Entry{}
	e.ID, e.Time = fmt.Sprintf("%026d", i), time.Now().Add(time.Duration(i-1000)*time.Second).UTC()
	e.Agent, e.Session, e.Event, e.Tool = "claude-code", fmt.Sprintf("session-%d", i%3), "tool.before", "Bash"
	if i%10 == 0 {
		e.Tool, e.Decision = "Bash"+hostile, grapnel.Block
		e.Hooks = []grapnel.HookRun{{Name: "guard", Source: "/x/grapnel.yaml", Line: 7, Decision: grapnel.Block, MS: 3}}
		e.Reasons = []grapnel.Reason{{Hook: "/x/grapnel.yaml::guard", Text: hostile, Cause: grapnel.CauseDecision}}
		e.Changed, e.Changes = []grapnel.Field{"tool.input"}, map[grapnel.Field]json.RawMessage{"tool.input": json.RawMessage(`{"command":"rm -r build"}`)}
	}
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	e.Input = &grapnel.Event{Kind: e.Event, ID: e.ID, Tool: &grapnel.Tool{Name: "Bash", Class: "shell", Commands: []string{command}, Input: input}}
	e.Input.Session.CWD = "/home/" + hostile
	line, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	w := journal.Writer{Dir: filepath.Join(f.log.State, spool.JournalDir)}
	if _, err := w.Append(line); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f.log.Wake()
}

// rows returns the numbers of the Records, oldest first.
func (f *fixture) rows(t *testing.T) (rows []int64) {
	t.Helper()
	for row, err := range f.log.Records(t.Context(), index.Query{Oldest: true, Lean: true}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row.Seq)
	}
	return rows
}

// browser returns a client that is logged in.
func (f *fixture) login(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	link, err := f.Link()
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, c, link); status != http.StatusOK || !strings.Contains(body, "<h1>Overview</h1>") {
		t.Fatalf("a new link answers %d: %s", status, body)
	}
	return c
}

func get(t *testing.T, c *http.Client, url string) (status int, body string) {
	t.Helper()
	resp := send(t, c, http.MethodGet, url, "")
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func send(t *testing.T, c *http.Client, method, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// status sends a request and returns the status of its response.
func status(t *testing.T, c *http.Client, method, url, body string, header ...string) int {
	t.Helper()
	resp := send(t, c, method, url, body, header...)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A link logs in one browser, for two minutes. The browser stays known after a restart, for 30
// days, on the same port.
func TestLogin(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	anyone := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	link, err := f.Link()
	if err != nil {
		t.Fatal(err)
	}
	if got := status(t, anyone, http.MethodHead, link, ""); got != http.StatusMethodNotAllowed {
		t.Errorf("a preview of the link answers %d", got)
	}
	resp := send(t, anyone, http.MethodGet, link, "")
	_ = resp.Body.Close()
	cookies := resp.Cookies()
	if resp.StatusCode != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/" {
		t.Fatalf("the link answers %s with %v", resp.Status, cookies)
	}
	if got := status(t, anyone, http.MethodGet, link, ""); got != http.StatusUnauthorized {
		t.Errorf("a used link answers %d", got)
	}
	late, err := f.Link()
	if err != nil {
		t.Fatal(err)
	}
	f.clock.add(tokenTime)
	if got := status(t, anyone, http.MethodGet, late, ""); got != http.StatusUnauthorized {
		t.Errorf("an old link answers %d", got)
	}
	raw, err := os.ReadFile(f.File)
	info, err2 := os.Stat(f.File)
	if err != nil || err2 != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' || strings.Contains(string(raw), cookies[0].Value) || strings.Contains(link, cookies[0].Value) {
		t.Errorf("the file is %s with mode %v, %v, %v", raw, info.Mode(), err, err2)
	}

	// After a restart, the Site listens at once.
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := f.base
	f.start(t, f.File)
	cookie := cookies[0].Name + "=" + cookies[0].Value
	if got := status(t, anyone, http.MethodGet, before+"/events", "", "Cookie", cookie); got != http.StatusOK || f.base != before {
		t.Errorf("after a restart at %s, the browser of %s gets %d", f.base, before, got)
	}
	for range maxBrowsers { // the oldest is forgotten
		if _, err := f.logins.add("other"); err != nil {
			t.Fatal(err)
		}
	}
	if got := status(t, anyone, http.MethodGet, before+"/events", "", "Cookie", cookie); got != http.StatusUnauthorized {
		t.Errorf("a forgotten browser gets %d", got)
	}
	c := f.login(t)
	f.clock.add(browserTime)
	if got := status(t, c, http.MethodGet, f.base+"/events", ""); got != http.StatusUnauthorized {
		t.Errorf("a browser gets %d after 30 days", got)
	}
}

// If another program has the port, the Site chooses another one, and knows no browser: the
// program may have read cookies and keys.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	file := filepath.Join(t.TempDir(), "ui.json")
	since := time.Now().UTC().Format(time.RFC3339)
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"port":%d,"browsers":[{"cookie":"x","since":%q}]}`, port, since), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fixture{log: follow(t), inbox: testInbox{approval.Store(t.TempDir())}, clock: &clock{now: time.Now()}}
	f.start(t, file)
	now, known := f.logins.port()
	if now == port || known || !strings.HasSuffix(f.base, fmt.Sprint(":", now)) {
		t.Errorf("the Site listens on %s, port %d, known browsers %v; taken is %d", f.base, now, known, port)
	}
}

// Only a browser of this Site, on a page of this Site, gets anything.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := open(t, 1)
	c := f.login(t)
	for _, path := range []string{"/", "/events", "/events/stream?after=0", "/sessions", "/session?session=session-0", "/records/" + fmt.Sprintf("%026d", 0), "/policy", "/deliveries", "/approvals", "/nosuch"} {
		if got, body := get(t, http.DefaultClient, f.base+path); got != http.StatusUnauthorized || !strings.Contains(body, "grapnel ui") || strings.Contains(body, "rm -rf") {
			t.Errorf("without a cookie, %s answers %d: %s", path, got, body)
		}
	}
	for _, host := range []string{"attacker.example", "attacker.example:1", "localhost", "localhost:1", "127.0.0.1", "0.0.0.0:80", ""} {
		if got := status(t, c, http.MethodGet, f.base+"/events", "", "Host", host); got != http.StatusMisdirectedRequest && host != "" {
			t.Errorf("the host %q gets %d", host, got)
		}
	}
	own := f.base[len("http://localhost"):]
	if got := status(t, http.DefaultClient, http.MethodGet, f.base+"/static/style.css", "", "Host", "[::1]"+own); got != http.StatusOK {
		t.Errorf("the host [::1] gets %d", got)
	}
	for name, header := range map[string][]string{
		"site": {"Sec-Fetch-Site", "cross-site"}, "port": {"Sec-Fetch-Site", "same-site"}, "origin": {"Origin", "http://localhost:1"},
	} {
		for _, path := range []string{"/deliveries/retry", "/approvals/code", "/approvals/answer", "/approvals/revoke"} {
			if got := status(t, c, http.MethodPost, f.base+path, "id=x", header...); got != http.StatusForbidden {
				t.Errorf("POST %s of another %s answers %d", path, name, got)
			}
		}
	}
	if got := status(t, c, http.MethodPost, f.base+"/deliveries/retry", "id="+strings.Repeat("x", 2<<20)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a large request answers %d", got)
	}
}

// Every page shows no Records and many, escapes hostile texts, and has all security headers.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f := open(t, n)
			c := f.login(t)
			job := delivery.Job{ID: "job" + hostile, Record: fmt.Sprintf("%026d", 0), Target: "/x/grapnel.yaml::" + hostile, Event: json.RawMessage("{}"), Created: time.Now(), State: delivery.Dead, Error: hostile, Ended: time.Now()}
			if err := f.queue.Put(t.Context(), job); n > 0 && err != nil {
				t.Fatal(err)
			}
			pages := map[string]int{
				"/": 200, "/events": 200, "/events?decision=block": 200, "/events?before=500": 200, "/events?text=nosuchword": 200, "/events?since=x": 400, "/events?hook=" + url.QueryEscape(hostile): 200,
				"/sessions": 200, "/sessions?before=400": 200, "/session?agent=claude-code&session=session-1": 200, "/session": 404, "/records/nosuch": 404, "/policy": 200, "/policy?dir=/etc": 200,
				"/deliveries": 200, "/deliveries?state=waiting": 200, "/approvals": 200, "/nosuch": 404,
			}
			if n > 0 {
				pages["/records/"+fmt.Sprintf("%026d", 10)] = 200
			}
			for path, want := range pages {
				resp := send(t, c, http.MethodGet, f.base+path, "")
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				text := string(body)
				if err != nil || resp.StatusCode != want {
					t.Errorf("%s answers %s, want %d: %v %s", path, resp.Status, want, err, text)
				}
				for _, bad := range []string{"<script>", "<img src=x", "ZgotmplZ", "%!", "style="} {
					if strings.Contains(text, bad) {
						t.Errorf("%s contains %q: %s", path, bad, text)
					}
				}
				if path != "/nosuch" && strings.Count(text, "<h1>") != 1 {
					t.Errorf("%s has %d headings", path, strings.Count(text, "<h1>"))
				}
				for name, part := range map[string]string{
					"Content-Security-Policy": "default-src 'none'; script-src 'self';", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				} {
					if got := resp.Header.Get(name); !strings.Contains(got, part) || strings.Contains(got, "unsafe") {
						t.Errorf("%s has %s: %q", path, name, got)
					}
				}
			}
			if _, body := get(t, c, f.base+"/events?decision=block"); n > 0 && (!strings.Contains(body, "&lt;script&gt;") || strings.Count(body, "<li data-seq") != perPage || !strings.Contains(body, "?before=") && !strings.Contains(body, "before=")) {
				t.Errorf("the list is %s", body)
			}
		})
	}
}

// TestDays: the chart begins with the first whole day of the statistics.
func TestDays(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	y, m, d := time.Now().Date()
	noon := time.Date(y, m, d, 12, 0, 0, 0, time.Local)
	f.clock.add(noon.Sub(f.clock.Now()))
	first := firstDay(noon)
	for _, at := range []time.Time{first.Add(-10 * time.Minute), first.Add(10 * time.Minute), first.Add(20 * time.Minute)} {
		f.put(t, 1000+int(time.Until(at).Seconds()), "ls")
	}
	sum, err := f.summary(t.Context())
	if err != nil || sum.Totals.Firings != 3 || len(sum.Totals.Days) != 1 {
		t.Fatalf("statistics: %+v, %v, want 3 events and one day", sum, err)
	}
	n := 0
	for _, times := range sum.Totals.Days[0].Decisions {
		n += times
	}
	if day := sum.Totals.Days[0]; !day.Begin.Equal(first) || n != 2 {
		t.Errorf("the first day is %+v, want %v with two decisions", day, first)
	}
}

// The parameters of a page select Records, and each page continues the one before it.
func TestFilters(t *testing.T) {
	t.Parallel()
	f := open(t, 120)
	c := f.login(t)
	rows := f.rows(t)
	for query, want := range map[string]int{
		"": perPage, fmt.Sprint("?before=", rows[70]): perPage, fmt.Sprint("?before=", rows[20]): 20, "?decision=block": 12, "?agent=codex": 0, "?session=session-1": 40, "?hook=guard": 12, "?text=build": perPage, "?text=zzz": 0,
		"?event=tool.after": 0, "?event=tool.before&decision=block&since=1h": 12, "?since=1s": 0, "?would=1": 0, "?decision=&agent=&text=": perPage,
	} {
		got, body := get(t, c, f.base+"/events"+query)
		if n := strings.Count(body, "<li data-seq"); got != http.StatusOK || n != want {
			t.Errorf("/events%s answers %d with %d Records, want %d", query, got, n, want)
		}
	}
}

// A stream sends new Records that match its filter, and continues after the last one that the
// browser has.
func TestStream(t *testing.T) {
	t.Parallel()
	f := open(t, 3)
	c := f.login(t)
	third := f.rows(t)[2]
	resp := send(t, c, http.MethodGet, fmt.Sprintf("%s/events/stream?after=%d&text=wanted", f.base, third), "")
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func(lines *bufio.Scanner, prefix string) string {
		t.Helper()
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return text
			}
		}
		t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
		return ""
	}
	next(lines, ": new Records")
	f.put(t, 3, "other")
	f.put(t, 4, "wanted <script>")
	rows := f.rows(t)
	fourth, fifth := fmt.Sprint(rows[3]), fmt.Sprint(rows[4])
	if id, row := next(lines, "id: "), next(lines, "data: "); id != fifth || !strings.HasPrefix(row, `<li data-seq="`+fifth+`">`) || !strings.Contains(row, "wanted &lt;script&gt;") {
		t.Errorf("the stream has %s: %s", id, row)
	}
	again := send(t, c, http.MethodGet, f.base+"/events/stream?after=0", "", "Last-Event-ID", fmt.Sprint(third))
	defer again.Body.Close()
	lines = bufio.NewScanner(again.Body)
	if first, second := next(lines, "id: "), next(lines, "id: "); first != fourth || second != fifth {
		t.Errorf("the resumed stream begins with %s, %s", first, second)
	}
	for _, query := range []string{"", "?after=x", "?after=1&since=x"} {
		if got := status(t, c, http.MethodGet, f.base+"/events/stream"+query, ""); got != http.StatusBadRequest {
			t.Errorf("the stream %q answers %d", query, got)
		}
	}
}

// A browser may approve calls after a person has entered its code. The right belongs to the key
// of the page: the cookie alone is not enough.
func TestConfirm(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	c := f.login(t)
	key, other := strings.Repeat("k", 64), strings.Repeat("o", 64)
	ask := func(key string) string {
		t.Helper()
		resp := send(t, c, http.MethodPost, f.base+"/approvals/code", url.Values{"key": {key}}.Encode())
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the code is %s, %q, %v", resp.Status, text, err)
		}
		return string(text)
	}
	confirmed := func(key string) bool {
		base, err := url.Parse(f.base)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base, strings.NewReader(url.Values{"key": {key}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, cookie := range c.Jar.Cookies(base) {
			r.AddCookie(cookie)
		}
		return f.Confirmed(r)
	}
	refused := func(what, code string) {
		t.Helper()
		if name, err := f.Confirm(code); err == nil || confirmed(key) {
			t.Errorf("%s confirms %q", what, name)
		}
	}
	refused("no code", "")
	old := ask(key)
	stolen := ask(other) // of a program that has the cookie
	refused("a replaced code", old)
	code := ask(key)
	refused("a code that the person no longer sees", stolen)
	f.clock.add(codeTime)
	refused("an expired code", code)
	code = ask(key)
	for range maxTries {
		_, _ = f.Confirm("0000-000x")
	}
	refused("a code after many wrong ones", code)
	code = ask(key)
	if _, err := f.Confirm(strings.ReplaceAll(code, "-", "")); err != nil || len(code) != 9 || !confirmed(key) || confirmed(other) || confirmed("") {
		t.Errorf("Confirm(%s) = %v; the key is confirmed: %v, another key: %v", code, err, confirmed(key), confirmed(other))
	}
	if text := ask(key); text != "" {
		t.Errorf("a confirmed browser gets the code %q", text)
	}
	raw, err := os.ReadFile(f.File)
	if err != nil || strings.Contains(string(raw), key) {
		t.Errorf("the file is %s, %v", raw, err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 300)} {
		if got := status(t, c, http.MethodPost, f.base+"/approvals/code", "key="+bad); got != http.StatusBadRequest {
			t.Errorf("the key %q answers %d", bad, got)
		}
	}
}

// Only a confirmed browser answers a request, and only the first answer counts.
func TestApprovals(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	c := f.login(t)
	ask := func(id string) {
		t.Helper()
		now := f.clock.Now()
		if err := f.inbox.Ask(&approval.Request{ID: id, Since: now, Until: now.Add(time.Minute), Waits: now.Add(time.Minute), PID: os.Getpid(), Question: hostile, Line: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	ask("aa")
	stream := send(t, c, http.MethodGet, f.base+"/approvals/stream", "")
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	for _, want := range []string{"data: aa", "data: bb aa"} {
		for lines.Scan() && lines.Text() != want {
			if strings.HasPrefix(lines.Text(), "data:") {
				t.Fatalf("the stream has %q, want %q", lines.Text(), want)
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if want == "data: aa" {
			f.clock.add(time.Second)
			ask("bb")
		}
	}
	for _, path := range []string{"/approvals", "/"} {
		if _, body := get(t, c, f.base+path); !strings.Contains(body, ">2<span") || strings.Contains(body, "<script>") || strings.Contains(body, `value="once"`) {
			t.Errorf("%s of a browser that is not confirmed: %s", path, body)
		}
	}
	key := strings.Repeat("k", 64)
	answer := func(id, choice, key string) (int, string) {
		t.Helper()
		resp := send(t, c, http.MethodPost, f.base+"/approvals/answer", url.Values{"id": {id}, "answer": {choice}, "reason": {"no <b>"}, "key": {key}}.Encode())
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if got, _ := answer("aa", "once", key); got != http.StatusForbidden {
		t.Errorf("an unconfirmed browser gets %d", got)
	}
	code := send(t, c, http.MethodPost, f.base+"/approvals/code", "key="+key)
	text, err := io.ReadAll(code.Body)
	_ = code.Body.Close()
	if _, err2 := f.Confirm(string(text)); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, wrong := range []string{"", strings.Repeat("o", 64)} {
		if got, _ := answer("aa", "once", wrong); got != http.StatusForbidden {
			t.Errorf("the key %q gets %d", wrong, got)
		}
	}
	if got, _ := answer("aa", "always", key); got != http.StatusBadRequest {
		t.Errorf("an unknown answer gets %d", got)
	}
	if _, body := get(t, c, f.base+"/approvals"); !strings.Contains(body, `value="once"`) {
		t.Errorf("a confirmed browser cannot answer: %s", body)
	}
	if got, body := answer("aa", "once", key); got != http.StatusOK || !strings.Contains(body, "Approved: the agent continues.") {
		t.Errorf("a yes gets %d: %s", got, body)
	}
	if got, body := answer("aa", "deny", key); got != http.StatusOK || !strings.Contains(body, "Nothing has changed: the request was approved by ada") {
		t.Errorf("a late no gets %d: %s", got, body)
	}
	if got, body := answer("bb", "deny", key); got != http.StatusOK || !strings.Contains(body, "Denied") || !strings.Contains(body, "no &lt;b&gt;") {
		t.Errorf("a no gets %d: %s", got, body)
	}
	ask("cc")
	if got, body := get(t, c, f.base+"/approvals/rule?id=cc"); got != http.StatusOK || strings.Contains(body, "<script>") || !strings.Contains(body, `name="digest" value="seen"`) {
		t.Errorf("the rule is %d: %s", got, body)
	}
	for _, step := range []struct {
		body string
		want int
	}{{"id=cc&digest=seen", http.StatusForbidden}, {"id=cc&digest=other&key=" + key, http.StatusInternalServerError}, {"id=dd&digest=seen&key=" + key, http.StatusInternalServerError}, {"id=cc&digest=seen&key=" + key, http.StatusOK}} {
		if got := status(t, c, http.MethodPost, f.base+"/approvals/rule", step.body); got != step.want {
			t.Errorf("the rule %s answers %d, want %d", step.body, got, step.want)
		}
	}
	if r, err := f.inbox.Request("cc"); err != nil || r.Answer == nil || r.Answer.State != approval.Approved {
		t.Errorf("the request of a rule is %+v, %v", r, err)
	}
	if got := status(t, c, http.MethodPost, f.base+"/approvals/revoke", "id=x"); got != http.StatusForbidden {
		t.Errorf("a revocation without the key gets %d", got)
	}
}

// A dead delivery waits again after a click.
func TestRetry(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	c := f.login(t)
	job := delivery.Job{ID: "job", Target: "t", Event: json.RawMessage("{}"), Created: time.Now(), State: delivery.Waiting}
	if err := f.queue.Put(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	jobs, err := f.queue.Lease(t.Context(), time.Now(), time.Minute, 1, nil)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("Lease = %v, %v", jobs, err)
	}
	if err := f.queue.Settle(t.Context(), []delivery.Result{{ID: "job", State: delivery.Dead, Error: "refused", At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, c, f.base+"/deliveries"); !strings.Contains(body, `name="id" value="job"`) {
		t.Errorf("the page does not show the dead letter: %s", body)
	}
	if got := status(t, c, http.MethodPost, f.base+"/deliveries/retry", "id=job"); got != http.StatusOK {
		t.Errorf("the retry answers %d", got)
	}
	if jobs, err := f.queue.Deliveries(t.Context(), queue.Query{State: delivery.Waiting}); err != nil || len(jobs) != 1 {
		t.Errorf("waiting are %v, %v", jobs, err)
	}
}

// No response contains a secret of a login.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	f := open(t, 1)
	c := f.login(t)
	base, err := url.Parse(f.base)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"token=", c.Jar.Cookies(base)[0].Value, hashOf(c.Jar.Cookies(base)[0].Value)}
	for _, path := range []string{"/", "/events", "/sessions", "/policy", "/deliveries", "/approvals", "/static/page.js", "/nosuch"} {
		_, body := get(t, c, f.base+path)
		for _, secret := range secrets {
			if strings.Contains(body, secret) {
				t.Errorf("%s contains %s", path, secret)
			}
		}
	}
}

// All static files together stay small, and load nothing from elsewhere.
func TestStatic(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	err := fs.WalkDir(static, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(static, path)
		if text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", ""); strings.Contains(text, "//www.") || strings.Contains(text, "http:") || strings.Contains(text, "https:") {
			t.Errorf("%s names another host", path)
		}
		_, err2 := z.Write(data)
		if err == nil {
			err = err2
		}
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil || packed.Len() > 60_000 {
		t.Errorf("the static files have %d bytes compressed, %v", packed.Len(), err)
	}
}
