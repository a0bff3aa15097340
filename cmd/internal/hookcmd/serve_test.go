package hookcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A served is a run of grapnel-hook --serve.
type served struct {
	t      testing.TB
	in     *io.PipeWriter
	lines  *bufio.Reader
	stderr bytes.Buffer // valid after the end
	exit   chan int
	last   int
}

func startServe(t testing.TB, args ...string) *served {
	t.Helper()
	in, out := io.Pipe()
	lines, answers := io.Pipe()
	s := &served{t: t, in: out, lines: bufio.NewReader(lines), exit: make(chan int, 1)}
	go func() {
		exit := Main(append(args, "--serve"), in, answers, &s.stderr)
		_ = answers.Close()
		s.exit <- exit
	}()
	t.Cleanup(func() {
		_ = out.Close()
		_ = lines.Close()
	})
	if m := s.read(); m.Type != dialect.TypeHello || m.Version != dialect.PlainVersion {
		t.Fatalf("it began with %+v, want a hello", m)
	}
	return s
}

func (s *served) write(format string, args ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", args...); err != nil {
		s.t.Error(err)
	}
}

func (s *served) read() *dialect.Message {
	s.t.Helper()
	text, err := s.lines.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("reading its answers: %v", err)
	}
	m, err := dialect.ReadMessage(text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return m
}

// ask sends an event and returns its reply.
func (s *served) ask(payload string) dialect.WireReply {
	s.t.Helper()
	s.last++
	s.write(`{"type":"event","id":"%d","event":%s}`, s.last, payload)
	m := s.read()
	if m.Type != dialect.TypeAnswer || m.ID != strconv.Itoa(s.last) || m.Reply == nil {
		s.t.Fatalf("%s is answered with %+v", payload, m)
	}
	return *m.Reply
}

// end closes the input and waits for the end of the process.
func (s *served) end() {
	s.t.Helper()
	_ = s.in.Close()
	if rest, err := io.ReadAll(s.lines); len(rest) > 0 || err != nil {
		s.t.Errorf("at its end it said %s, %v", rest, err)
	}
	if exit := <-s.exit; exit != 0 {
		s.t.Errorf("it ended with %d: %s", exit, &s.stderr)
	}
}

const removes = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"rm -rf /x"}}`

const servedPolicy = `version: 1
hooks:
  - {name: guard, on: tool.before, match: {command: rm -rf}, block: Use trash.}
  - {name: house, on: [session.start, prompt.before, agent.before], context: house rules}
  - {name: mask, on: [prompt.before, tool.before, tool.after, message.before, response.before], replace: [{pattern: 'echo', with: 'print'}]}
  - {name: once, on: [tool.after, agent.after], when: 'kind == "agent.after"', block: Run the tests.}
`

func rootWith(t testing.TB, policy string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// grapnel-hook --serve and a separate process give the same bytes, for every agent and all of its
// golden conversations, including invalid ones. The Records are also the same.
func TestServedLikeSpawned(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join("..", "..", "..", "dialect", "testdata", d.Name, "*.txtar"))
			if err != nil {
				t.Fatal(err)
			}
			payloads := []string{"{}", "[]", "7", `"x"`, `{"hook_event_name":"PreToolUse","tool_name":7}`}
			for _, file := range files {
				ar, err := txtar.ParseFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range ar.Files {
					if f.Name == "stdin.json" && json.Valid(f.Data) {
						payloads = append(payloads, strings.TrimSpace(string(f.Data)))
					}
				}
			}
			// More payloads find nothing new and take longer.
			rand.Shuffle(len(payloads), func(i, j int) { payloads[i], payloads[j] = payloads[j], payloads[i] })
			payloads = payloads[:min(len(payloads), 40)]

			one, many := rootWith(t, servedPolicy), rootWith(t, servedPolicy)
			s := startServe(t, d.Name, "--root", many)
			for _, payload := range payloads {
				payload = strings.ReplaceAll(payload, "\n", " ") // one line
				var stdout, stderr bytes.Buffer
				exit := Main([]string{d.Name, "--root", one}, strings.NewReader(payload), &stdout, &stderr)
				here := func(text string) string { return strings.ReplaceAll(text, one, many) }
				want := dialect.WireReply{Stdout: here(stdout.String()), Stderr: here(stderr.String()), Exit: exit}
				if diff := cmp.Diff(want, s.ask(payload)); diff != "" {
					t.Errorf("%s (-spawned +served)\n%s", payload, diff)
				}
			}
			s.end()
			if diff := cmp.Diff(recorded(t, one), recorded(t, many)); diff != "" {
				t.Errorf("Records (-spawned +served)\n%s", diff)
			}
		})
	}
}

// recorded lists the results in the Records below a root.
func recorded(t testing.TB, root string) []string {
	t.Helper()
	var list []string
	for entry, err := range spool.Read(filepath.Join(root, "state"), spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(entry.Agent, entry.Event, entry.Tool, entry.Decision, entry.Unsupported, len(entry.Hooks)))
	}
	return list
}

// A changed policy applies without a restart. While a file may be half written, its last content
// may still apply.
func TestServedPolicyChanges(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\n")
	s := startServe(t, "claude-code", "--root", root)
	if got := s.ask(removes); got != (dialect.WireReply{}) {
		t.Errorf("without a rule: %+v", got)
	}
	for _, reason := range []string{"Use trash.", "Use rmdir."} {
		policy := strings.ReplaceAll(servedPolicy, "Use trash.", reason)
		if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the policy says "+reason, func() bool { return strings.Contains(s.ask(removes).Stdout, reason) })
	}
	s.end()
}

// Two agents, each with its own --serve process, share a root: their calls count for one limit,
// and each event writes one Record.
func TestServedTwo(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\nhooks:\n  - {name: few, on: tool.before, limit: {count: 10, per: 1h, by: session}}\n")
	var wg sync.WaitGroup
	var blocked atomic.Int32
	for name := range 2 {
		s := startServe(t, "claude-code", "--root", root)
		wg.Go(func() {
			for i := range 15 {
				s.write(`{"type":"event","id":"%d","event":{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"%d-%d","tool_name":"Bash","tool_input":{"command":"ls"}}}`, i, name, i)
				text, err := s.lines.ReadString('\n')
				if err != nil {
					t.Error(err)
					return
				}
				if strings.Contains(text, "is reached") {
					blocked.Add(1)
				}
			}
			_ = s.in.Close()
			<-s.exit
		})
	}
	wg.Wait()
	if n, records := blocked.Load(), len(recorded(t, root)); n != 20 || records != 30 {
		t.Errorf("%d of 30 were blocked, with %d Records; want 20 and 30", n, records)
	}
}

// Each question is answered once, for any number of concurrent questions, and uses no memory
// afterwards.
//
// It does not run in parallel, because it measures the memory of the process.
func TestServedMany(t *testing.T) {
	s := startServe(t, "openclaw", "--root", rootWith(t, servedPolicy))
	n := 10_000
	if raceDetector || testing.Short() {
		n = 2_000
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	ask := func(from, to int) {
		go func() {
			for i := from; i < to; i++ {
				command := "ls"
				if i%2 == 0 {
					command = "rm -rf /"
				}
				s.write(`{"type":"event","id":"%d","event":{"hook":"before_tool_call","event":{"toolName":"exec","params":{"command":%q}},"ctx":{"sessionId":"s%d"}}}`, i, command, i%3)
			}
		}()
		seen := make(map[string]bool, to-from)
		for range to - from {
			m := s.read()
			i, err := strconv.Atoi(m.ID)
			if err != nil || i < from || i >= to || seen[m.ID] || (m.Reply.Stdout != "") != (i%2 == 0) {
				t.Fatalf("%+v %+v %v, want one answer each", m, m.Reply, err)
			}
			seen[m.ID] = true
		}
	}
	ask(0, n/10)
	before, goroutines := heap(), runtime.NumGoroutine()
	ask(n/10, n)
	if after := heap(); after > before+32<<20 || runtime.NumGoroutine() > goroutines+10 {
		t.Errorf("%d MiB and %d goroutines, before %d and %d", after>>20, runtime.NumGoroutine(), before>>20, goroutines)
	}
	s.end()
}

// A panic affects only one event, and the next event is answered.
func TestServedPanic(t *testing.T) {
	t.Parallel()
	d := *dialect.ClaudeCode()
	calls := 0
	d.ReadEvent = func(*dialect.EventRow, map[string]json.RawMessage, dialect.Input) (*grapnel.Event, error) {
		calls++
		panic("of the dialect")
	}
	var out bytes.Buffer
	s := &lineServer{inv: invocation{root: rootWith(t, servedPolicy)}, named: &d, stdout: &out, left: make(chan struct{}, 1)}
	for range 2 {
		s.answer(t.Context(), "7", dialect.Input{Payload: []byte(removes)})
	}
	if text := out.String(); calls != 4 || strings.Count(text, `"id":"7"`) != 2 || !strings.Contains(text, "internal error: of the dialect") {
		t.Errorf("%d calls, %s", calls, text)
	}
}
