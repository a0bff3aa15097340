package server

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// write replaces a file as an editor does.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// opened opens a root with a policy.
func opened(t *testing.T, root, policy string, opts Options) *Engine {
	t.Helper()
	if policy != "" {
		write(t, filepath.Join(root, "grapnel.yaml"), policy)
	}
	opts.Root, opts.CWD = root, root
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	e, err := Open(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, e) })
	return e
}

func closed(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

func shell(line string) *grapnel.Event {
	input, _ := json.Marshal(map[string]string{"command": line})
	return &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{ID: "s1"}, Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: input}}
}

func entries(t *testing.T, e *Engine) (firings, late []spool.Entry) {
	t.Helper()
	for entry, err := range spool.Read(e.place.State, spool.Filter{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case entry.Late:
			late = append(late, entry)
		default:
			firings = append(firings, entry)
		}
	}
	return firings, late
}

// A target is a server that gets deliveries.
type target struct {
	*httptest.Server
	mu     sync.Mutex
	status int               // of its replies; 0 = 200
	got    map[string]int    // requests that it accepted, by ID
	bodies map[string]string // by ID
	events []string          // IDs of the accepted events, in their order
	tries  int
}

func newTarget(t *testing.T) *target {
	t.Helper()
	to := &target{got: map[string]int{}, bodies: map[string]string{}}
	to.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		to.mu.Lock()
		defer to.mu.Unlock()
		to.tries++
		if to.status != 0 {
			w.WriteHeader(to.status)
			return
		}
		id := r.Header.Get("Webhook-Id")
		to.got[id]++
		to.bodies[id] = string(body)
		var ev struct{ ID string }
		_ = json.Unmarshal(body, &ev)
		to.events = append(to.events, ev.ID)
	}))
	t.Cleanup(to.Close)
	return to
}

func (to *target) answer(status int) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.status = status
}

func (to *target) counts() (tries, ids int) {
	to.mu.Lock()
	defer to.mu.Unlock()
	return to.tries, len(to.got)
}

func (to *target) policy() string {
	return `version: 1
networks: [127.0.0.0/8]
hooks:
  - {name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask the release team.}
  - {name: team, on: tool.before, when: 'verdict.decision == "block"', notify: {url: "` + to.URL + `"}}
`
}

// Each event has a Record in the log of this machine, with its origin. Observers get the same.
func TestRecords(t *testing.T) {
	t.Parallel()
	var seen []grapnel.Record
	e := opened(t, t.TempDir(), "version: 1\nhooks: [{name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask.}]\n", Options{
		Agent: "my-agent", Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { seen = append(seen, *rec) })},
	})
	e.Fire(t.Context(), shell("ls"))
	if v := e.Fire(t.Context(), shell("deploy")); v.Decision != grapnel.Block {
		t.Fatalf("%+v", v)
	}
	firings, _ := entries(t, e)
	if len(firings) != 2 || len(seen) != 2 {
		t.Fatalf("%d Records, and observers got %d, want 2", len(firings), len(seen))
	}
	for i, rec := range firings {
		if rec.Host == "" || rec.User == "" || rec.Machine == "" || len(rec.PolicyDigest) != 64 || rec.Agent != "my-agent" || rec.ID != seen[i].ID || seen[i].Machine != rec.Machine {
			t.Errorf("%+v", rec)
		}
	}
	if firings[1].Decision != grapnel.Block || firings[1].CallDigest == "" {
		t.Errorf("the block is recorded as %+v", firings[1].Record)
	}
	n := e.Counts()
	if n.Events != 2 || n.Blocked != 1 || n.Lost != 0 {
		t.Errorf("%+v", n)
	}
	w := httptest.NewRecorder()
	e.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{`grapnel_firings_total{decision="block"} 1`, `grapnel_firings_total{decision="none"} 1`, "grapnel_firing_duration_seconds_count 2", "grapnel_unrecorded_answers_total 0"} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("without %q:\n%s", line, w.Body)
		}
	}
}

// Each block is delivered exactly once, also if many goroutines fire and Close follows at once.
func TestNotify(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	e := opened(t, t.TempDir(), to.policy(), Options{})
	var wait sync.WaitGroup
	const events = 40
	for range events {
		wait.Go(func() { e.Fire(t.Context(), shell("deploy")) })
		wait.Go(func() { e.Fire(t.Context(), shell("ls")) })
	}
	wait.Wait()
	closed(t, e)
	if tries, ids := to.counts(); tries != events || ids != events {
		t.Errorf("%d requests with %d IDs, want %d", tries, ids, events)
	}
	for id, body := range to.bodies {
		if !strings.Contains(body, `"grapnel":1`) || !strings.Contains(body, `"decision":"block"`) {
			t.Errorf("%s: %s", id, body)
		}
		break
	}
	_, late := entries(t, e)
	if n := e.Counts(); n.Delivered != events || len(late) != events || late[0].Hooks[0].Name != "team" || late[0].Hooks[0].Error != "" {
		t.Errorf("%+v, %d results", n, len(late))
	}
}

// An event that its target does not accept waits. The next process delivers it under
// the same ID.
func TestNotifyNextProcess(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	to.answer(http.StatusServiceUnavailable)
	root := t.TempDir()
	var log strings.Builder
	e := opened(t, root, to.policy(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	e.Fire(t.Context(), shell("deploy"))
	await.Until(t, "the first attempt failed", func() bool { return e.Counts().Retries > 0 })
	e.Fire(t.Context(), shell("deploy")) // waits too
	closed(t, e)
	if !strings.Contains(log.String(), "webhook delivery failed") || !strings.Contains(log.String(), "deliveries wait for the next program") {
		t.Errorf("the log:\n%s", &log)
	}
	if _, late := entries(t, e); len(late) != 0 {
		t.Errorf("the delivery has the result %+v", late[0])
	}
	to.answer(0)
	e = opened(t, root, "", Options{})
	await.Until(t, "both events are delivered", func() bool { return e.Counts().Delivered == 2 })
	closed(t, e)
	if _, ids := to.counts(); ids != 2 || len(to.events) != 2 {
		t.Errorf("%d events in %d deliveries, want 2 and 2", ids, len(to.events))
	}
}

// A target that is gone gets no other attempt, and the Record says so.
func TestNotifyGone(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	to.answer(http.StatusGone)
	e := opened(t, t.TempDir(), to.policy(), Options{})
	e.Fire(t.Context(), shell("deploy"))
	await.Until(t, "the delivery ended", func() bool { return e.Counts().Undelivered == 1 })
	closed(t, e)
	if _, late := entries(t, e); len(late) != 1 || !strings.Contains(late[0].Hooks[0].Error, "not delivered after 1 attempts") {
		t.Errorf("%+v", late)
	}
}

// A hook with http: asks its server, and a webhook of another system does too. If a server fails, its
// circuit breaker opens for all processes.
func TestServers(t *testing.T) {
	t.Parallel()
	var asked int
	var question []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ = io.ReadAll(r.Body)
		if asked++; asked > 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"decision":"block","reason":"the server says no"}`)
	}))
	defer s.Close()
	policy := "version: 1\nnetworks: [127.0.0.0/8]\nhooks: [{name: ask, on: tool.before, on_error: closed, http: {url: '" + s.URL + "', breaker: {failures: 1}}}]\n"
	e := opened(t, t.TempDir(), policy, Options{})
	for _, want := range []string{"the server says no", "status 500", "not asked"} {
		if v := e.Fire(t.Context(), shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), want) {
			t.Errorf("%v: %s, want %q", v.Decision, v.Reason(), want)
		}
	}
	if o, err := wire.ReadOrigin(question); err != nil || o == nil || o.Machine != e.identity.Machine || len(o.PolicyDigest) != 64 || o.Hook.Name != "ask" {
		t.Errorf("the origin is %+v, %v", o, err)
	}
	if asked != 2 || e.Counts().HookErrors != 2 {
		t.Errorf("asked %d times, %+v", asked, e.Counts())
	}
}

// A server with a private authority is asked while the policy names the authority's file, which is read
// for each connection.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"decision":"block","reason":"the server says no"}`)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	defer s.Close()
	root := t.TempDir()
	policy := "version: 1\nnetworks: [127.0.0.0/8]\nca: keys/corp.pem\nhooks: [{name: ask, on: tool.before, on_error: closed, http: {url: '" + s.URL + "', breaker: {failures: 9}}}]\n"
	e := opened(t, root, policy, Options{})
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	for _, step := range []struct{ file, want string }{
		{"", "keys/corp.pem: no such file"}, {"# soon\n", "no certificate in PEM format"}, {text, "the server says no"},
	} {
		if step.file != "" {
			write(t, filepath.Join(root, "keys", "corp.pem"), step.file)
		}
		if v := e.Fire(t.Context(), shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), step.want) {
			t.Errorf("with the file %q: %v %s, want %q", step.file, v.Decision, v.Reason(), step.want)
		}
	}
}

// An edit takes effect without a new Open. A broken edit keeps the old rules, and says so. The
// caller's own hooks stay.
func TestEdits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "grapnel.yaml")
	rule := func(word string) string {
		return fmt.Sprintf("version: 1\nhooks: [{name: no-%[1]s, on: tool.before, match: {command: %[1]s}, block: not %[1]s}]\n", word)
	}
	var mu sync.Mutex
	var log strings.Builder
	e := opened(t, root, rule("deploy"), Options{Log: slog.New(slog.NewTextHandler(writer(func(p []byte) { mu.Lock(); defer mu.Unlock(); log.Write(p) }), nil))})
	if err := e.Add(grapnel.Spec{Name: "own", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
		if ev.Command() == "mine" {
			return "own rule"
		}
		return ""
	})}); err != nil {
		t.Fatal(err)
	}
	blocked := func() (words []string) {
		for _, word := range []string{"deploy", "push", "mine"} {
			if v := e.Fire(t.Context(), shell(word)); v.Decision == grapnel.Block {
				words = append(words, word)
			}
		}
		return words
	}
	if got := fmt.Sprint(blocked()); got != "[deploy mine]" {
		t.Fatal(got)
	}
	write(t, file, rule("push"))
	await.Until(t, "the edit takes effect", func() bool { return fmt.Sprint(blocked()) == "[push mine]" })
	write(t, file, "version: 1\nhooks: nonsense\n")
	await.Until(t, "the mistake is reported", func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(log.String(), "policy is broken") })
	if got := fmt.Sprint(blocked()); got != "[push mine]" {
		t.Errorf("with a broken file, these are blocked: %s", got)
	}
	if v := e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart}); !strings.Contains(fmt.Sprint(v.Messages), "grapnel.yaml") {
		t.Errorf("the session starts with %q", v.Messages)
	}
	write(t, file, rule("deploy"))
	await.Until(t, "the repair takes effect", func() bool { return fmt.Sprint(blocked()) == "[deploy mine]" })
	if n := e.Counts(); n.Reloads < 2 || n.FailedReloads != 0 {
		t.Errorf("%+v", n)
	}
}

// An edit of a project's policy takes effect only after it is trusted. Until then, the trusted rules
// stay in force, and the user gets a message.
func TestProjectEdits(t *testing.T) {
	t.Parallel()
	dir := match.RealPath(t.TempDir())
	file := filepath.Join(dir, "project", "grapnel.yaml")
	write(t, filepath.Join(dir, "project", ".git", "HEAD"), "")
	write(t, filepath.Join(dir, "project", "sub", "file"), "")
	edit := func(word string) {
		t.Helper()
		write(t, file, fmt.Sprintf("version: 1\nhooks: [{name: no, on: tool.before, match: {command: %s}, block: no}]\n", word))
	}
	edit("deploy")
	e, err := Open(t.Context(), &Options{Root: filepath.Join(dir, "root"), CWD: filepath.Join(dir, "project", "sub"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	if e.Root != filepath.Dir(file) {
		t.Errorf("the root is %s", e.Root)
	}
	trust := func() {
		t.Helper()
		x, errs := load.Examine(file, filepath.Dir(file), packs.All())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if err := e.place.Trusts().Keep(x); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func(word string) bool { return e.Fire(t.Context(), shell(word)).Decision == grapnel.Block }
	if blocks("deploy") {
		t.Error("an untrusted policy is in force")
	}
	trust()
	await.Until(t, "the trusted policy is in force", func() bool { return blocks("deploy") })
	edit("push")
	await.Until(t, "the user hears of the edit", func() bool {
		return strings.Contains(fmt.Sprint(e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart}).Messages), file)
	})
	if blocks("push") || !blocks("deploy") {
		t.Error("the untrusted edit is in force")
	}
	trust()
	await.Until(t, "the trusted edit is in force", func() bool { return blocks("push") && !blocks("deploy") })
}

// During a pause, hooks only observe.
func TestPause(t *testing.T) {
	t.Parallel()
	e := opened(t, t.TempDir(), "version: 1\nhooks: [{name: no, on: tool.before, match: {command: deploy}, block: no}]\n", Options{})
	p, err := pause.New(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	decides := func(want grapnel.Decision) func() bool {
		return func() bool { return e.Fire(t.Context(), shell("deploy")).Decision == want }
	}
	if !decides(grapnel.Block)() {
		t.Error("no block before the pause")
	}
	if err := p.Write(e.place.Pause()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the pause begins", decides(grapnel.None))
	if err := os.Remove(e.place.Pause()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the pause ends", decides(grapnel.Block))
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// Events see either all old or all new rules while policies are loaded again.
func TestReloadIsAtomic(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "grapnel.yaml")
	pair := func(reason string) string {
		return fmt.Sprintf("version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: x}, block: %[1]s}\n  - {name: b, on: tool.before, match: {command: x}, block: %[1]s}\n", reason)
	}
	e := opened(t, root, pair("first"), Options{})
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := e.Fire(t.Context(), shell("x"))
				if len(v.Reasons) == 0 || v.Decision != grapnel.Block || strings.Contains(v.Reason(), "first") && strings.Contains(v.Reason(), "second") {
					t.Errorf("%v %q", v.Decision, v.Reason())
					return
				}
			}
		})
	}
	for i := range 6 {
		write(t, file, pair([]string{"second", "first"}[i%2]))
		if err := e.Reload(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wait.Wait()
}

// A call that a person has approved with "grapnel allow" passes once.
func TestApprovals(t *testing.T) {
	t.Parallel()
	e := opened(t, t.TempDir(), "version: 1\nhooks: [{name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask.}]\n", Options{})
	v := e.Fire(t.Context(), shell("deploy"))
	if v.Decision != grapnel.Block || !strings.Contains(fmt.Sprint(v), "grapnel allow") {
		t.Fatalf("%+v", v)
	}
	store := e.place.Approvals()
	g := &approval.Grant{By: "ada", Uses: 1, Digest: store.Digest(shell("deploy")), Hooks: []string{e.place.Policy + "::no-deploy"}, Call: "deploy", Record: "r"}
	if err := g.New(time.Now(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := store.Add(g); err != nil {
		t.Fatal(err)
	}
	first, second := e.Fire(t.Context(), shell("deploy")), e.Fire(t.Context(), shell("deploy"))
	if first.Decision != grapnel.None || second.Decision != grapnel.Block {
		t.Errorf("%v, then %v, want none and block", first.Decision, second.Decision)
	}
}

// If Records cannot be stored, they are counted, and a strict policy blocks until they can.
func TestStrict(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	e := opened(t, root, "version: 1\nstrict: true\nhooks: []\n", Options{})
	write(t, e.place.Journal(), "no directory")
	e.Fire(t.Context(), shell("ls"))
	if v := e.Fire(t.Context(), shell("ls")); v.Decision != grapnel.Block || e.Counts().Lost != 2 {
		t.Errorf("%+v, %+v, want a block", v, e.Counts())
	}
	if err := os.Remove(e.place.Journal()); err != nil {
		t.Fatal(err)
	}
	e.Fire(t.Context(), shell("ls"))
	if v := e.Fire(t.Context(), shell("ls")); v.Decision != grapnel.None {
		t.Errorf("%+v, want no block, since Records are stored again", v)
	}
}

// Close waits for observing hooks, and records their results. After Close, they do not run, and the
// Record says so.
func TestClose(t *testing.T) {
	t.Parallel()
	e := opened(t, t.TempDir(), "version: 1\n", Options{})
	release, ran := make(chan struct{}), 0
	if err := e.Add(grapnel.Spec{Name: "slow", Phase: grapnel.PhaseObserve, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		<-release
		ran++
		panic("a defect")
	})}); err != nil {
		t.Fatal(err)
	}
	e.Fire(t.Context(), shell("ls"))
	time.AfterFunc(time.Millisecond, func() { close(release) })
	closed(t, e)
	_, late := entries(t, e)
	if ran != 1 || len(late) != 1 || !strings.Contains(late[0].Hooks[0].Error, "a defect") {
		t.Errorf("ran %d times, results %+v", ran, late)
	}
	e.Fire(t.Context(), shell("ls"))
	firings, _ := entries(t, e)
	if ran != 1 || len(firings) != 2 || !strings.Contains(firings[1].Error, "the engine is closed") {
		t.Errorf("ran %d times, %+v", ran, firings)
	}
	closed(t, e) // again
}

// A delivery to a target that does not answer does not outlast the context of Close.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	asked, release := make(chan bool, 9), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- true; <-release }))
	defer s.Close()
	defer close(release)
	to := &target{Server: s}
	e := opened(t, t.TempDir(), to.policy(), Options{})
	e.Fire(t.Context(), shell("deploy"))
	await.Receive(t, "the request", asked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = e.Close(ctx)
	if _, late := entries(t, e); len(late) != 0 || e.now.Load().records.Waiting().IsZero() {
		t.Errorf("the delivery is not kept: %+v", late)
	}
}

// Errors name the field of Options.
func TestOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "")
	for want, opts := range map[string]*Options{
		"server.Options.CWD: " + file + " is not a directory":  {Root: dir, CWD: file},
		"server.Options.CWD: stat " + file + "x:":              {Root: dir, CWD: file + "x"},
		"server.Options.Root: " + file + " is not a directory": {Root: file, CWD: dir},
		"server.Options.Policies: stat " + file + "y:":         {Root: dir, CWD: dir, Policies: []string{"filey"}},
	} {
		if e, err := Open(t.Context(), opts); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", e, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, &Options{Root: dir, CWD: dir}); err == nil {
		t.Error("a canceled Open succeeds")
	}
}

// A failed delivery is tried again by the schedule. Ordered events wait for the first of their
// session, and no event waits for another target.
func TestOutbox(t *testing.T) {
	t.Parallel()
	to, other := newTarget(t), newTarget(t)
	e := opened(t, t.TempDir(), to.policy()+`  - {name: sorted, on: tool.before, when: 'verdict.decision == "block"', notify: {url: "`+other.URL+`", ordered: true}}`+"\n", Options{})
	closed(t, e)                        // this test makes the deliveries
	other.answer(http.StatusBadRequest) // of this event only, so its target is not held back
	for _, id := range []string{"first", "second"} {
		ev := shell("deploy")
		ev.ID = id
		e.Fire(t.Context(), ev)
	}
	next := e.drain(t.Context())
	if n := e.Counts(); n.Delivered != 2 || n.Retries != 1 || next.IsZero() || len(e.outbox.jobs) != 2 {
		t.Errorf("%+v, %d events wait until %v", n, len(e.outbox.jobs), next)
	}
	if tries, _ := other.counts(); tries != 1 {
		t.Errorf("%d attempts for the ordered target, want that the second event waits", tries)
	}
	other.answer(0)
	for _, j := range e.outbox.jobs {
		j.next = time.Now()
	}
	if next := e.drain(t.Context()); !next.IsZero() || len(e.outbox.jobs)+len(e.outbox.order) != 0 || e.Counts().Delivered != 4 {
		t.Errorf("after the schedule, %+v wait until %v, %+v", e.outbox.jobs, next, e.Counts())
	}
	if fmt.Sprint(other.events) != "[first second]" {
		t.Errorf("the ordered target got %q", other.events)
	}
}

// A target that does not answer gets no other event for a while, and a delivery ends after the last
// attempt of the schedule.
func TestOutboxSchedule(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	to.answer(http.StatusInternalServerError)
	e := opened(t, t.TempDir(), to.policy(), Options{})
	closed(t, e)
	for range 2 {
		e.Fire(t.Context(), shell("deploy"))
	}
	e.drain(t.Context())
	if tries, _ := to.counts(); tries != 1 || len(e.outbox.jobs) != 2 {
		t.Errorf("%d attempts, %d events wait, want 1 and 2", tries, len(e.outbox.jobs))
	}
	for range 2 * len(webhook.Schedule()) {
		for _, j := range e.outbox.jobs {
			j.next = time.Now()
		}
		clear(e.outbox.targets)
		e.drain(t.Context())
	}
	if n := e.Counts(); n.Undelivered != 2 || n.Retries != 14 {
		t.Errorf("%+v, want two deliveries that have ended", n)
	}
}

// A rule with `approve:` waits for a person, and so does the Engine as the approver of a host.
func TestPerson(t *testing.T) {
	t.Parallel()
	e := opened(t, t.TempDir(), "version: 1\nhooks:\n  - {name: ask-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: 10m}}\n", Options{Agent: "my-agent"})
	store := e.place.Approvals()
	asked := func(command string) (r *approval.Request) {
		t.Helper()
		await.Until(t, "a request", func() bool {
			all, _ := store.Requests()
			for i := range all {
				if all[i].Open(time.Now()) && strings.Contains(string(all[i].Line), command) {
					r = &all[i]
				}
			}
			return r != nil
		})
		if r.Scope.Agent != "my-agent" {
			t.Errorf("the request is of %q", r.Scope.Agent)
		}
		return r
	}
	answer := func(command string, yes bool) {
		t.Helper()
		r := asked(command)
		a := &approval.Answer{State: approval.Denied, By: "ada", Time: time.Now()}
		if yes {
			g, err := r.Yes("ada", "", false, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			a.State, a.Grant = approval.Approved, g
		}
		if _, _, err := store.Answer(r.ID, a); err != nil {
			t.Fatal(err)
		}
	}
	fire := func(ctx context.Context, command string) <-chan grapnel.Verdict {
		verdicts := make(chan grapnel.Verdict, 1)
		go func() { verdicts <- e.Fire(ctx, shell(command)) }()
		return verdicts
	}
	for command, yes := range map[string]bool{"git push --tags": true, "git push --all": false} {
		verdicts := fire(t.Context(), command)
		answer(command, yes)
		if v := await.Receive(t, "the verdict", verdicts); (v.Decision == grapnel.Allow) != yes || (v.Decision == grapnel.Block) == yes {
			t.Errorf("%s: with yes=%v the verdict is %v %q", command, yes, v.Decision, v.Reason())
		}
	}
	var approver host.Approver = e
	for command, yes := range map[string]bool{"make yes": true, "make no": false} {
		consents := make(chan bool, 1)
		go func() {
			c, err := approver.Approve(t.Context(), &host.Question{Event: shell(command), Reason: "Always asks"})
			consents <- c.Yes && err == nil
		}()
		answer(command, yes)
		if got := await.Receive(t, "the consent", consents); got != yes {
			t.Errorf("%s: with yes=%v the consent is %v", command, yes, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	verdicts := fire(ctx, "git push --mirror")
	asked("git push --mirror")
	cancel()
	if v := await.Receive(t, "the verdict", verdicts); v.Decision != grapnel.Block {
		t.Errorf("a canceled wait = %v %q", v.Decision, v.Reason())
	}
}
