//go:build linux || darwin

package hookcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// A listening is a daemon of a root that stores everything in memory.
type listening struct {
	warm *Warm

	mu        sync.Mutex
	lines     []string
	notices   []Notice
	declined  []string
	questions [][]byte
	fails     error // error of Keep
}

func (l *listening) ask(_ context.Context, question []byte) (ask.Reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.questions = append(l.questions, question)
	return ask.Reply{Error: "no server"}, nil
}

func listen(t testing.TB, root string) *listening {
	t.Helper()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	l := &listening{}
	l.warm = NewWarm(WarmOptions{State: place.State, Ask: l.ask, Keep: func(_ context.Context, lines [][]byte, notices []Notice, _ bool) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.fails != nil {
			return l.fails
		}
		for _, line := range lines {
			l.lines = append(l.lines, string(line))
		}
		l.notices = append(l.notices, notices...)
		return nil
	}})
	socket, err := server.Listen(client.Socket(place.State))
	if err != nil {
		t.Fatal(err)
	}
	server := server.NewServer(server.Options{Version: Version, Answer: l.warm.Answer, Declined: func(why string) {
		l.mu.Lock()
		l.declined = append(l.declined, why)
		l.mu.Unlock()
	}}, &http.Server{ReadHeaderTimeout: time.Minute})
	served := make(chan error, 1)
	go func() { served <- server.Serve(socket) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if err := l.warm.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// clock matches the time at which a limit is available again.
var clock = regexp.MustCompile(`in [0-9hms]+, at \d\d:\d\d:\d\d`)

// programResult is the result of one way of answering.
type programResult struct {
	Payload, Stdout, Stderr string
	Exit                    int
}

func program(args []string, payload []byte) programResult {
	var stdout, stderr bytes.Buffer
	exit := Main(args, bytes.NewReader(payload), &stdout, &stderr)
	return programResult{string(payload), clock.ReplaceAllString(stdout.String(), "later"), stderr.String(), exit}
}

// inProcess answers like a Go program that fires events itself.
func inProcess(t *testing.T, d *dialect.Dialect, root string, payload []byte) programResult {
	t.Helper()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	in := dialect.Input{Payload: payload}
	got := dialect.Receive(d, in)
	engine, err := local.Open(t.Context(), &local.Options{Place: &place, Files: place.Files(nil, place.Dirs(got.Event, true)), Approved: approval.Approvals{Store: place.Approvals()}.Find, Stops: sp.Blocked, Counter: sp, Unread: got.Err != nil})
	if err != nil {
		t.Fatal(err)
	}
	reply := dialect.Answer(t.Context(), engine.Engine, d, in)
	return programResult{string(payload), clock.ReplaceAllString(string(reply.Stdout), "later"), string(reply.Stderr), reply.Exit}
}

// payloads returns all recorded payloads of an agent, and those that tests make from them.
func payloads(t *testing.T, d *dialect.Dialect) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "dialect", "testdata", d.Name, "*.txtar"))
	if err != nil || len(files) == 0 && d.Name != dialect.Plain().Name {
		t.Fatal(err, len(files))
	}
	all := [][]byte{nil, []byte("{"), []byte("[]"), []byte(`{"hook_event_name":"PreToolUse","cwd":"/","tool_name":7}`)}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range ar.Files {
			if strings.HasPrefix(f.Name, "stdin") {
				all = append(all, f.Data)
			}
		}
	}
	return all
}

// vectorEvents returns the events of the conformance vectors in the format of Gemini CLI.
func vectorEvents(t *testing.T) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "proofs", "conformance", "vectors", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	var all [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct {
			ID     string          `json:"id"`
			Native string          `json:"native_event"`
			Input  json.RawMessage `json:"input"`
		}
		if json.Unmarshal(data, &vectors) != nil {
			continue // another form
		}
		for _, v := range vectors {
			event := map[string]json.RawMessage{}
			if json.Unmarshal(v.Input, &event) != nil || v.Native == "" {
				continue
			}
			event["hook_event_name"], event["session_id"], event["cwd"] = fmt.Appendf(nil, "%q", v.Native), fmt.Appendf(nil, "%q", v.ID), json.RawMessage(`"/"`)
			text, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
	return all
}

// An event gets the same bytes in process, from a program and through a daemon: all recorded
// events of the agents, with a policy of every kind of rule.
func TestThreeWays(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			all := payloads(t, d)
			if d.Name == dialect.GeminiCLI().Name {
				all = append(all, vectorEvents(t)...)
			}
			root := rootWith(t, servedPolicy+`  - {name: ask, on: tool.before, match: {tool: [write, edit]}, ask: Sure?}
  - {name: few, on: tool.before, limit: {count: 3, per: 1h, by: session}}
  - {name: seen, on: tool.after, match: {text: [secret, token]}, mode: observe, block: Not that.}
use: [destructive, secrets]
`)
			ways := map[string][]programResult{}
			for _, way := range []string{"in process", "program", "daemon"} {
				if err := os.RemoveAll(filepath.Join(root, "state")); err != nil {
					t.Fatal(err)
				}
				var daemon *listening
				if way == "daemon" {
					daemon = listen(t, root)
				}
				for _, payload := range all {
					// Whether two events are one action also depends on time.
					if err := os.RemoveAll(filepath.Join(root, "state", "held")); err != nil {
						t.Fatal(err)
					}
					if _, duplicates := dialect.Receive(d, dialect.Input{Payload: payload}).Way(); way == "in process" && !duplicates {
						ways[way] = append(ways[way], inProcess(t, d, root, payload))
					} else {
						ways[way] = append(ways[way], program([]string{d.Name, "--root", root}, payload))
					}
				}
				if daemon != nil && len(daemon.lines) == 0 && d.Name != dialect.Plain().Name {
					t.Errorf("the daemon has answered nothing of %d, and declined %v", len(all), daemon.declined)
				}
				if daemon != nil {
					t.Logf("%d events, %d Records of the daemon, %d declined", len(all), len(daemon.lines), len(daemon.declined))
				}
			}
			for _, way := range []string{"in process", "daemon"} {
				if diff := cmp.Diff(ways["program"], ways[way]); diff != "" {
					t.Errorf("(-program +%s)\n%s", way, diff)
				}
			}
		})
	}
}

// BenchmarkWarm sends an event through a socket to a daemon with 1,000 rules, which stores
// Records in memory.
func BenchmarkWarm(b *testing.B) {
	var rules strings.Builder
	rules.WriteString("version: 1\nhooks:\n")
	for i := range 1000 {
		fmt.Fprintf(&rules, "  - {name: r%d, on: tool.before, match: {command: kubectl delete namespace team-%d}, ask: Go on?}\n", i, i)
	}
	root := rootWith(b, rules.String())
	listen(b, root)
	q := &client.Question{
		Version: Version, Agent: "claude-code", Root: root, Budget: daemonBudget,
		Payload: []byte(`{"session_id":"0c7f9f60","cwd":"/tmp","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"cd web && npm ci && git add -A"}}`),
	}
	socket := client.Socket(filepath.Join(root, "state"))
	for b.Loop() {
		if _, err := client.Ask(socket, q); err != nil {
			b.Fatal(err)
		}
	}
}

func bash(session, command string) []byte {
	return fmt.Appendf(nil, `{"hook_event_name":"PreToolUse","session_id":%q,"cwd":"/","tool_name":"Bash","tool_input":{"command":%q}}`, session, command)
}

// A changed policy applies from the next event on after it has settled, also after two changes
// within one tick of the file system's clock. If it becomes invalid, the last valid policy stays
// active.
func TestWarmPolicyChanges(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\n")
	l := listen(t, root)
	args := []string{"claude-code", "--root", root}
	write := func(text string) {
		t.Helper()
		name, before := filepath.Join(root, "grapnel.yaml"), time.Now().Add(-time.Minute)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, before, before)); err != nil {
			t.Fatal(err)
		}
	}
	if got := program(args, bash("s", "rm -rf /x")); got.Stdout != "" {
		t.Errorf("without a rule: %+v", got)
	}
	for i := range 30 {
		reason := fmt.Sprintf("Use trash %d.", 10+i)
		write(strings.ReplaceAll(servedPolicy, "Use trash.", reason))
		if got := program(args, bash("s", "rm -rf /x")); !strings.Contains(got.Stdout, reason) {
			t.Fatalf("with another rule: %+v, want %s", got, reason)
		}
	}
	write("version: 1\nhooks: [{name: x, on: nothing}]\n")
	if got := program(args, bash("s", "rm -rf /x")); !strings.Contains(got.Stdout, "Use trash 39.") {
		t.Errorf("with a broken policy: %+v, want what was valid", got)
	}
	if len(l.lines) != 32 || len(l.declined) != 0 {
		t.Errorf("%d Records, %v declined: the daemon did not answer", len(l.lines), l.declined)
	}
}

// If the daemon cannot append a Record, its answer writes it as a program would. If neither can, the user gets the same
// warning as from a program, and a strict policy blocks.
func TestWarmCannotKeep(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\nstrict: true\n")
	l := listen(t, root)
	l.fails = errors.New("the disk is full")
	args := []string{"claude-code", "--root", root}
	if got := program(args, bash("s", "ls")); got.Stdout != "" || len(recorded(t, root)) != 1 {
		t.Errorf("%+v, %d Records in the log", got, len(recorded(t, root)))
	}
	dir := filepath.Join(root, "state")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := program(args, bash("s", "ls"))
	if !strings.Contains(got.Stdout, `"deny"`) || !strings.Contains(got.Stdout, "no Record was stored") {
		t.Errorf("%+v, want a block that says why", got)
	}
}
