//go:build unix

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// work is a worker that follows the instructions in the events. The first arguments are options:
// with "-deaf" it sends no hello, with "-stay" it does not end with its input. The last argument is
// its hello.
func work(args []string) {
	stay := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-deaf":
			fmt.Fprintln(os.Stderr, "loading")
			time.Sleep(20 * time.Minute)
		case "-stay":
			stay = true
		}
		args = args[1:]
	}
	fmt.Println(args[0])
	var held []string
	answer := func(id, outcome string) { fmt.Printf(`{"type":"answer","id":%q,%s}`+"\n", id, outcome) }
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		m, err := dialect.ReadMessage(line)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
		if m.Type == dialect.TypeCancel {
			fmt.Fprintln(os.Stderr, "cancelled", m.ID)
		}
		if m.Type != dialect.TypeEvent {
			continue
		}
		ev, err := dialect.Plain().Read(dialect.Input{Payload: m.Event})
		if err != nil {
			answer(m.ID, fmt.Sprintf(`"error":%q`, err))
			continue
		}
		does, with, _ := strings.Cut(ev.Tool.Commands[0], " ")
		fmt.Fprintln(os.Stderr, "does", does)
		switch does {
		case "hang":
		case "hold": // until the next event that is not held
			held = append(held, m.ID)
			continue
		case "die":
			fmt.Fprintln(os.Stderr, "last words")
			code, _ := strconv.Atoi(with)
			os.Exit(code)
		case "suicide":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "say":
			fmt.Println(with)
		case "twice":
			answer(m.ID, `"outcome":{}`)
			answer(m.ID, `"outcome":{}`)
		case "large":
			answer(m.ID, `"outcome":{"decision":"allow","reason":"`+strings.Repeat("x", 4000)+`"}`)
		case "sleep":
			d, _ := time.ParseDuration(with)
			time.Sleep(d)
			answer(m.ID, `"outcome":{"reason":"slept"}`)
		case "answer":
			answer(m.ID, with)
		default:
			wd, _ := os.Getwd()
			answer(m.ID, fmt.Sprintf(`"outcome":{"reason":%q}`, fmt.Sprint(ev.Tool.Commands[0], "|", os.Getpid(), "|", wd, "|", len(os.Getenv("GRAPNEL_EVENT")), os.Getenv("GRAPNEL_HOOK"))))
		}
		for _, id := range held {
			answer(id, `"outcome":{"reason":"held"}`)
		}
		held = nil
	}
	if stay {
		time.Sleep(20 * time.Minute)
	}
	os.Exit(0)
}

const plainHello = `{"grapnel":1,"type":"hello","name":"test","concurrency":4,"new":[1]}`

// worker returns a Worker that runs this test binary as work. It must end by itself unless the test
// closes it.
func worker(t *testing.T, args ...string) *process.Worker {
	t.Helper()
	if len(args) == 0 || strings.HasPrefix(args[len(args)-1], "-") {
		args = append(args, plainHello)
	}
	w := &process.Worker{Command: process.Command{
		Name: "w", Args: append([]string{os.Args[0]}, args...), Env: []string{roleVar + "=worker"}, Dir: t.TempDir(), Executor: process.System,
	}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Close(ctx)
	})
	return w
}

// logged returns a worker and its log.
func logged(t *testing.T, args ...string) (*process.Worker, *syncBuffer) {
	t.Helper()
	w, log := worker(t, args...), &syncBuffer{}
	w.Log = log
	return w, log
}

// does returns an event with an instruction for a worker.
func does(what string) *grapnel.Event {
	ev := &grapnel.Event{
		Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: os.TempDir()},
		Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{what}},
	}
	return ev
}

func ask(t *testing.T, w *process.Worker, what string) (grapnel.Outcome, error) {
	t.Helper()
	return askFor(t, w, patience, what)
}

func askFor(t *testing.T, w *process.Worker, timeout time.Duration, what string) (grapnel.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, grapnel.ErrTimeout)
	defer cancel()
	return w.Handle(ctx, does(what))
}

// pidOf returns the process ID of a worker's process.
func pidOf(t *testing.T, w *process.Worker) int {
	t.Helper()
	out, err := ask(t, w, "who")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Split(out.Reason, "|")[1])
	if err != nil {
		t.Fatalf("%v in %q", err, out.Reason)
	}
	return pid
}

// One process answers all events. It runs in the directory of its policy and gets no event in its
// variables.
func TestWorkerStaysWarm(t *testing.T) {
	t.Parallel()
	w := worker(t)
	first := pidOf(t, w)
	dir, err := filepath.EvalSymlinks(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		out, err := ask(t, w, fmt.Sprint("event ", i, " \u2028 <&>"))
		if want := fmt.Sprint("event ", i, " \u2028 <&>|", first, "|", dir, "|0w"); err != nil || out.Reason != want {
			t.Fatalf("event %d: %q, %v, want %q", i, out.Reason, err, want)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", first, err)
	}
	if _, err := ask(t, w, "late"); !errors.Is(err, process.ErrStart) || !strings.Contains(err.Error(), "the worker was closed") {
		t.Errorf("after Close: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close once more: %v", err)
	}
}

// Processes of a worker leave no open files behind, however they end. The test runs alone, because
// other tests open files, too.
func TestWorkerLeavesNoFiles(t *testing.T) {
	count := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("cannot count open files here: %v", err)
		}
		return len(files)
	}
	w := worker(t)
	pidOf(t, w)
	_, _ = ask(t, w, "die 1")
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	before := count()
	for range 100 {
		w := worker(t)
		w.Args, w.Line = nil, "echo '"+plainHello+"'; read -r l; exit 4"
		for range 2 { // the worker is started again
			_, _ = ask(t, w, "x")
		}
		_ = w.Close(t.Context())
	}
	for _, end := range []string{"who", "die 1", "suicide", "say noise", "twice"} {
		w := worker(t)
		pidOf(t, w)
		_, _ = ask(t, w, end)
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func TestWorkerNeverAsked(t *testing.T) {
	t.Parallel()
	if err := worker(t).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// An answer of a worker has the same meaning as the answer of a command, and an error is not an
// answer.
func TestWorkerAnswers(t *testing.T) {
	t.Parallel()
	w := worker(t)
	for answer, tt := range map[string]struct {
		want    grapnel.Outcome
		wantErr string // part of the error
	}{
		`"outcome":{}`: {},
		`"outcome":{"decision":"block","reason":"r","Decision":"allow"},"new":{}`: {want: grapnel.Outcome{Decision: grapnel.Block, Reason: "r"}},
		`"error":"no network"`:                          {wantErr: "could not decide: no network"},
		`"error":{"code":7}`:                            {wantErr: `could not decide: {"code":7}`},
		`"error":"half","outcome":{"decision":"block"}`: {grapnel.Outcome{Decision: grapnel.Block}, "could not decide: half"},
		`"error":null,"outcome":{"decision":"ask"}`:     {want: grapnel.Outcome{Decision: grapnel.Ask}},
		`"outcome":null`:                                {wantErr: "neither an outcome nor an error"},
		`"outcome":"block"`:                             {wantErr: `its outcome "\"block\"" is not an object`},
		`"outcome":{"decision":"maybe"}`:                {wantErr: "cannot read its answer"},
		`"decision":"block"`:                            {wantErr: "neither an outcome nor an error"},
	} {
		out, err := ask(t, w, "answer "+answer)
		if diff := cmp.Diff(tt.want, out, answerOnly); diff != "" || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: error %v, want %q (-want +got)\n%s", answer, err, tt.wantErr, diff)
		}
		if raw, ok := strings.CutPrefix(answer, `"outcome":`); ok && (out.Output == nil || !strings.HasPrefix(raw, string(out.Output.Stdout))) {
			t.Errorf("%s: Output %+v, want the outcome as the program sent it", answer, out.Output)
		}
	}
}

// Answers can arrive in any order, and each reaches its event. There are never more events in
// progress than the program accepts.
func TestWorkerAtOnce(t *testing.T) {
	t.Parallel()
	w := worker(t)
	pidOf(t, w)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if out, err := ask(t, w, "hold"); err != nil || out.Reason != "held" {
				t.Errorf("held: %+v, %v", out, err)
			}
		})
	}
	all.Go(func() { // uses the fourth slot
		for range 3 {
			if out, err := ask(t, w, "sleep 50ms"); err != nil || out.Reason != "slept" {
				t.Errorf("the last: %+v, %v", out, err)
			}
		}
	})
	all.Wait()
	single, log := logged(t)
	single.Concurrency = 1
	pidOf(t, single)
	held := make(chan error, 1)
	go func() {
		_, err := askFor(t, single, time.Second, "hold")
		held <- err
	}()
	log.wait(t, "does hold\n", 1)
	if _, err := askFor(t, single, 50*time.Millisecond, "who"); !errors.Is(err, grapnel.ErrTimeout) || !strings.Contains(err.Error(), "had to wait") {
		t.Errorf("the second event: %v, want that it had to wait for its turn", err)
	}
	if err := <-held; !errors.Is(err, grapnel.ErrTimeout) {
		t.Errorf("the one before: %v", err)
	}
}

// The program does not get events that are not in its kinds.
func TestWorkerKinds(t *testing.T) {
	t.Parallel()
	w := worker(t, `{"grapnel":1,"type":"hello","name":"test","kinds":["session.start"]}`)
	if out, err := ask(t, w, "die 3"); err != nil || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
		t.Errorf("%+v, %v, want no opinion", out, err)
	}
}

// If a program dies, only the events in progress fail, with the cause. The next event starts it
// again.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	for how, wantErr := range map[string]string{
		"die 3":   "does die\nlast words",
		"die 0":   "ended before it answered: ",
		"die 4":   "ended with exit code 4 before it answered: ",
		"die 2":   "exit code 2", // the exit code of a crash in Go; it is not a decision
		"suicide": "SIGKILL",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w, log := logged(t)
			first := pidOf(t, w)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if out, err := ask(t, w, "hold"); err == nil || !strings.Contains(err.Error(), wantErr) {
						t.Errorf("under way: %+v, %v, want %q", out, err, wantErr)
					}
				})
			}
			log.wait(t, "does hold\n", 3)
			all.Go(func() {
				out, err := ask(t, w, how)
				if err == nil || !strings.Contains(err.Error(), wantErr) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
					t.Errorf("%+v, %v, want %q", out, err, wantErr)
				}
				if how == "suicide" && !errors.Is(err, process.ErrSignal) {
					t.Errorf("%v is not ErrSignal", err)
				}
			})
			all.Wait()
			if second := pidOf(t, w); second == first {
				t.Errorf("process %d answers although it died", first)
			}
		})
	}
}

// Events that were waiting for a slot when the program died go to the next process.
func TestWorkerDiesBeforeTheirTurn(t *testing.T) {
	t.Parallel()
	w := worker(t)
	w.Concurrency = 1
	pidOf(t, w)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if out, err := ask(t, w, "sleep 10ms"); err != nil {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	if _, err := ask(t, w, "die 1"); err == nil {
		t.Error("it did not die")
	}
	all.Wait()
}

// A program that fails repeatedly is not started at each event. During a pause, the error contains
// its length and its cause.
func TestWorkerBacksOff(t *testing.T) {
	t.Parallel()
	w := worker(t)
	died, paused := 0, ""
	for died < 10 && paused == "" {
		_, err := ask(t, w, "die 4")
		switch {
		case err == nil:
			t.Fatal("it did not die")
		case errors.Is(err, process.ErrStart):
			paused = err.Error()
		default:
			died++
		}
	}
	if died < 2 || !strings.Contains(paused, fmt.Sprintf("it has failed %d times in a row, next attempt in ", died)) || !strings.Contains(paused, "exit code 4") {
		t.Errorf("it died %d times, then %q", died, paused)
	}
	await.Until(t, "it is started again", func() bool {
		_, err := ask(t, w, "who")
		return err == nil
	})
}

// If a program writes an invalid message, the events in progress fail, or else the next event: the
// lost message may have been a block.
func TestWorkerNoise(t *testing.T) {
	t.Parallel()
	for line, wantErr := range map[string]string{
		`hello world`:          `"hello world" is not a JSON object on one line`,
		`[1]`:                  "not a JSON object",
		`1 2`:                  "not a JSON object",
		`{"decision":"block"}`: "has no type",
		`{"type":"answer","id":"77","outcome":{}}`: `answered "77", which is not the id of an open event`,
		`{"type":"answer","id":1,"outcome":{}}`:    "its id 1 is not a string",
		`{"type":"answer","outcome":{}}`:           `answered "", which is not the id of an open event`,
		`{"type":"event","id":"1","event":{}}`:     "which only grapnel may send",
		`{"type":"cancel","id":"1"}`:               "which only grapnel may send",
		`{"type":"answer","id":"1","outcome":{}}}`: "not a JSON object",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			w := worker(t)
			if out, err := ask(t, w, "say "+line); err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%+v, %v, want %q", out, err, wantErr)
			}
			pidOf(t, w)
		})
	}
	w := worker(t)
	if _, err := ask(t, w, "twice"); err != nil {
		t.Error(err)
	}
	await.Until(t, "a caller gets an error because of an answer too many", func() bool {
		_, err := ask(t, w, "who")
		return err != nil && strings.Contains(err.Error(), "which is not the id of an open event")
	})
	pidOf(t, w)
	for _, harmless := range []string{`{"type":"weather","id":7}`, ` `, plainHello} {
		w := worker(t)
		if _, err := askFor(t, w, 300*time.Millisecond, "say "+harmless); !errors.Is(err, grapnel.ErrTimeout) {
			t.Errorf("%q: %v, want only that no answer came", harmless, err)
		}
	}
}

// An answer that is too large fails only its own event.
func TestWorkerLargeAnswer(t *testing.T) {
	t.Parallel()
	w := worker(t)
	w.MaxOutput = 2000
	first := pidOf(t, w)
	if out, err := ask(t, w, "large"); !errors.Is(err, process.ErrOutput) || !strings.Contains(err.Error(), "2000 bytes") || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
		t.Errorf("%+v, %v, want ErrOutput", out, err)
	}
	if second := pidOf(t, w); second != first {
		t.Error("it was started again")
	}
	if _, err := ask(t, w, "say "+strings.Repeat("y", 3000)); !errors.Is(err, process.ErrOutput) {
		t.Errorf("a large line of nobody: %v", err)
	}
}

// The worker gets the whole of a large event.
func TestWorkerLargeEvent(t *testing.T) {
	t.Parallel()
	w := worker(t)
	w.MaxOutput = 8 << 20
	text := strings.Repeat("0123456789", 300_000)
	if out, err := ask(t, w, text); err != nil || !strings.HasPrefix(out.Reason, text) {
		t.Errorf("%d bytes of the answer, %v", len(out.Reason), err)
	}
}

// When the time of an event is over, only this event fails. The worker gets a cancel, and its late
// answer is ignored.
func TestWorkerLate(t *testing.T) {
	t.Parallel()
	w, log := logged(t)
	first := pidOf(t, w)
	if out, err := askFor(t, w, 100*time.Millisecond, "sleep 400ms"); !errors.Is(err, grapnel.ErrTimeout) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
		t.Errorf("%+v, %v, want ErrTimeout", out, err)
	}
	if second := pidOf(t, w); second != first {
		t.Error("it was started again")
	}
	log.wait(t, "cancelled 2\n", 1)
}

// A program is started again if it occupies all its slots, or if it is late three times in a row.
func TestWorkerStuck(t *testing.T) {
	t.Parallel()
	w := worker(t)
	w.Concurrency = 1
	first := pidOf(t, w)
	if _, err := askFor(t, w, 200*time.Millisecond, "hang"); !errors.Is(err, grapnel.ErrTimeout) {
		t.Error(err)
	}
	if second := pidOf(t, w); second == first { // this event had to wait for a slot
		t.Error("it was not started again")
	}

	silent := worker(t)
	first = pidOf(t, silent)
	for range 3 {
		if _, err := askFor(t, silent, 200*time.Millisecond, "hang"); !errors.Is(err, grapnel.ErrTimeout) {
			t.Error(err)
		}
	}
	if second := pidOf(t, silent); second == first {
		t.Error("it was not started again after three late answers")
	}
}

// A program that ends immediately is started rarely, however many events there are.
func TestWorkerStartsSeldom(t *testing.T) {
	t.Parallel()
	w := worker(t)
	w.Args, w.Line = nil, "echo x >> starts"
	if out, err := w.Handle(t.Context(), does("x")); err == nil {
		t.Errorf("%+v: no answer became no opinion", out)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, grapnel.ErrTimeout) // must fire: it ends the test
	defer cancel()
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			for ctx.Err() == nil {
				if out, err := w.Handle(ctx, does("x")); err == nil {
					t.Errorf("%+v: no answer became no opinion", out)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	asking.Wait()
	starts, err := os.ReadFile(filepath.Join(w.Dir, "starts"))
	if n := strings.Count(string(starts), "x"); err != nil || n < 1 || n > 14 { // pauses of at least 0, 0.05, 0.1, 0.2, 0.4, 0.8 s, and so on up to minutes
		t.Errorf("%d starts, %v", n, err)
	}
}

// Among many callers with short deadlines, each gets its own answer or an error.
func TestWorkerManyCallers(t *testing.T) {
	t.Parallel()
	w := worker(t)
	pidOf(t, w)
	var asking sync.WaitGroup
	for i := range 1000 {
		asking.Go(func() {
			what := fmt.Sprint("caller ", i)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i%40)*time.Millisecond, grapnel.ErrTimeout) // may or may not fire
			defer cancel()
			if out, err := w.Handle(ctx, does(what)); err == nil && !strings.HasPrefix(out.Reason, what+"|") {
				t.Errorf("%q got %+v", what, out)
			}
		})
	}
	asking.Wait()
	await.Until(t, "one that has time gets its answer", func() bool {
		out, err := ask(t, w, "after them")
		return err == nil && strings.HasPrefix(out.Reason, "after them|")
	})
}

// A canceled caller does not affect other callers, and the program is not started again.
func TestWorkerCallerGoesAway(t *testing.T) {
	t.Parallel()
	w := worker(t)
	first := pidOf(t, w)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Handle(ctx, does("sleep 20ms")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the caller went away", err)
		}
	}
	if second := pidOf(t, w); second != first {
		t.Error("it was started again")
	}
}

func TestWorkerCannotStart(t *testing.T) {
	t.Parallel()
	hello := func(text string) *process.Worker { return worker(t, text) }
	deaf := worker(t, "-deaf")
	deaf.Hello = 5 * time.Second // long enough for a slow machine to start the program
	gone := worker(t)
	gone.Args = []string{"/nowhere/at/all"}
	nowhere := worker(t)
	nowhere.Dir = filepath.Join(nowhere.Dir, "none")
	line := worker(t)
	line.Args, line.Line = nil, "echo oops >&2; exit 1"
	foreign := worker(t)
	foreign.Dialect = dialect.ClaudeCode()
	noExecutor := worker(t)
	noExecutor.Executor = nil
	for name, tt := range map[string]struct {
		w       *process.Worker
		wantErr string
	}{
		"no hello":     {deaf, "it did not send its hello within 5s: loading"},
		"no program":   {gone, "no such file"},
		"no directory": {nowhere, "no such file or directory"},
		"it ends":      {line, "it ended with exit code 1 before it sent its hello: oops"},
		"another's":    {foreign, "cannot be a worker"},
		"nobody":       {noExecutor, "has no Executor"},
		"no JSON":      {hello("hello"), `"hello" is not a JSON object`},
		"no version":   {hello(`{"type":"hello"}`), "version 0 of the plain dialect, want 1"},
		"of later":     {hello(`{"grapnel":2,"type":"hello"}`), "version 2 of the plain dialect, want 1"},
		"no event":     {hello(`{"grapnel":1,"type":"hello","kinds":["tool.befor"]}`), `": cannot read its hello: its kinds contain the unknown event "tool.befor"`},
		"odd":          {hello(`{"grapnel":1,"type":"hello","concurrency":"many"}`), "cannot read its hello"},
		"an answer":    {hello(`{"type":"answer","id":"1","outcome":{"decision":"allow"}}`), "it answered before it sent hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := ask(t, tt.w, "who"); !errors.Is(err, process.ErrStart) || !strings.Contains(err.Error(), tt.wantErr) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
				t.Errorf("%+v, %v, want ErrStart that says %q", out, err, tt.wantErr)
			}
		})
	}
	slow := worker(t, "-deaf")
	if _, err := askFor(t, slow, 100*time.Millisecond, "who"); !errors.Is(err, grapnel.ErrTimeout) || !strings.Contains(err.Error(), "has not sent its hello yet") {
		t.Errorf("%v, want ErrTimeout", err)
	}
}

// Close waits for the events in progress. If a program does not end by itself, Close kills it with
// all its children.
func TestWorkerClose(t *testing.T) {
	t.Parallel()
	w, log := logged(t)
	answered := make(chan error, 1)
	go func() {
		_, err := ask(t, w, "sleep 300ms")
		answered <- err
	}()
	log.wait(t, "does sleep\n", 1)
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("asked before it was closed: %v", err)
	}

	stays, log := logged(t, "-stay")
	pid := pidOf(t, stays)
	go func() {
		_, err := ask(t, stays, "hang")
		answered <- err
	}()
	log.wait(t, "does hang\n", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // must fire: the program stays
	defer cancel()
	if err := stays.Close(ctx); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("Close = %v, want that it was killed", err)
	}
	if err := <-answered; err == nil || !strings.Contains(err.Error(), "the worker was closed") {
		t.Errorf("asked: %v, want that it was closed", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

// A sandbox around System also runs workers, and gets no event from them.
func TestWorkerExecutor(t *testing.T) {
	t.Parallel()
	w := worker(t)
	var seen *process.Program
	w.Executor = process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		seen = p
		p.Env = append(p.Env, "GRAPNEL_HOOK=sandboxed")
		return process.System.Run(ctx, p)
	})
	if out, err := ask(t, w, "x"); err != nil || !strings.HasSuffix(out.Reason, "|0sandboxed") {
		t.Errorf("%+v, %v", out, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if seen.Event != nil || seen.Stdin != nil || seen.Hook != "w" || !slices.Equal(seen.Args, w.Args) {
		t.Errorf("the Executor saw %+v", seen)
	}
}

// A worker that is started for one event answers like a worker that keeps running.
func TestWorkerOnce(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		hello   string // plainHello unless set
		want    grapnel.Outcome
		wantErr string
	}{
		`answer "outcome":{"decision":"block","reason":"r"}`: {want: grapnel.Outcome{Decision: grapnel.Block, Reason: "r"}},
		`answer "outcome":{}`:                                {},
		`answer "error":"no network"`:                        {wantErr: "could not decide: no network"},
		`hang`:                                               {wantErr: "it ended before it answered"},
		`die 0`:                                              {wantErr: "it ended before it answered: does die\nlast words"},
		`die 3`:                                              {wantErr: "exit code 3: does die\nlast words"},
		`die 2`:                                              {wantErr: "exit code 2"},
		`suicide`:                                            {wantErr: "SIGKILL"},
		`say noise`:                                          {wantErr: `"noise" is not a JSON object`},
		`twice`:                                              {wantErr: "which is not the id of an open event"},
		`hang 1`:                                             {hello: `{"grapnel":1,"type":"hello","kinds":["session.end"]}`},
		`hang 2`:                                             {hello: `{"grapnel":3,"type":"hello"}`, wantErr: "version 3"},
		`hang 4`:                                             {hello: `{"grapnel":1,"type":"hello","kinds":["tool.befor"]}`, wantErr: `unknown event "tool.befor"`},
		`hang 3`:                                             {hello: `{"type":"weather"}`, wantErr: "it ended before it sent hello"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			hello := tt.hello
			if hello == "" {
				hello = plainHello
			}
			w := worker(t, hello)
			c := w.Command
			c.Dialect, c.InDir = dialect.Once(), true
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := c.Handle(ctx, does(what))
			if diff := cmp.Diff(tt.want, out, answerOnly); diff != "" || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want %q (-want +got)\n%s", err, tt.wantErr, diff)
			}
		})
	}
	c := worker(t).Command
	c.Dialect, c.InDir = dialect.Once(), true
	out, err := c.Handle(t.Context(), does("x"))
	if err != nil || !strings.HasSuffix(out.Reason, "|0w") {
		t.Errorf("%q, %v: it sees of the event what one that is kept running does", out.Reason, err)
	}
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// wait waits until the buffer contains text at least the given number of times.
func (b *syncBuffer) wait(t *testing.T, text string, times int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%q is logged %d times", text, times), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return strings.Count(b.buf.String(), text) >= times
	})
}
