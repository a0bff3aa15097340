package hooktest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/sample"
)

// TestWorker is the test suite for worker programs. It starts the program, args[0] as a path or a
// name on PATH with its arguments, and checks that it
//
//   - sends its hello first, and only messages on standard output,
//   - answers each event once, by its ID, with a permitted outcome or an error, for ordinary, huge
//     and hostile events,
//   - accepts as many events at once as its hello declares,
//   - ignores unknown members and types of messages,
//   - continues after a cancel,
//   - answers all pending events when its input ends, and then exits with code 0.
//
// The suite sends events of the kinds in the program's hello. It does not know the program's
// purpose.
func TestWorker(t *testing.T, args ...string) { //nolint:tparallel // the caller decides whether the test itself is parallel
	t.Helper()
	if len(args) == 0 {
		t.Fatal("TestWorker needs a program and its arguments")
	}
	for _, law := range workerLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerPatience, args)
			law.hold(w, eventsOf(w.hello.Kinds))
			w.end()
		})
	}
}

// workerLaws lists the checks of TestWorker, each with a separate process. All of them also check
// the hello, that every line is a message, and that the program ends with its input.
var workerLaws = []struct {
	name string
	hold func(w *worker, events []*grapnel.Event)
}{
	{"Answers", func(w *worker, events []*grapnel.Event) {
		for i, ev := range events {
			w.ask(fmt.Sprint(i), ev, "")
			w.permitted(ev, w.answer(fmt.Sprint(i), ev))
		}
	}},
	{"Hostile", func(w *worker, events []*grapnel.Event) {
		for i, ev := range events {
			for j, odd := range hostile(ev) {
				if odd.Kind != ev.Kind {
					continue // Grapnel would not send this event
				}
				if _, err := dialect.Plain().WriteEvent(odd); err == nil {
					w.ask(fmt.Sprint(i, ".", j), odd, "")
					w.answer(fmt.Sprint(i, ".", j), odd)
				}
			}
		}
	}},
	{"Huge", func(w *worker, events []*grapnel.Event) {
		for i, ev := range events {
			huge := withText(ev, strings.Repeat("0123456789abcde\n", 1<<20/16))
			w.ask(fmt.Sprint(i), huge, "")
			w.answer(fmt.Sprint(i), huge)
		}
	}},
	{"AtOnce", func(w *worker, events []*grapnel.Event) {
		const rounds = 5
		places := min(max(w.hello.Concurrency, 1), 32)
		for round := range rounds {
			for i := range places {
				w.ask(fmt.Sprint(round, "-", i), events[i%len(events)], "")
			}
			for i := range places {
				w.answer(fmt.Sprint(round, "-", i), events[i%len(events)])
			}
		}
	}},
	{"Unknown", func(w *worker, events []*grapnel.Event) {
		w.writeLine(`{"type":"weather","id":"0","sky":{"type":"event"}}`)
		for i, ev := range events {
			w.ask(fmt.Sprint("id of any form: ", i, " é\"\\"), ev, `"new":{"id":"no","type":"cancel"},`)
			w.writeLine(`{"type":"weather"}`)
			w.answer(fmt.Sprint("id of any form: ", i, " é\"\\"), ev)
		}
	}},
	{"Cancel", func(w *worker, events []*grapnel.Event) {
		w.writeLine(`{"type":"cancel","id":"nobody"}`)
		for i, ev := range events {
			id := fmt.Sprint(i)
			w.ask(id, ev, "")
			w.cancelled[id] = true
			w.writeLine(`{"type":"cancel","id":"` + id + `"}`)
			w.ask("after "+id, ev, "")
			w.answer("after "+id, ev)
			w.writeLine(`{"type":"cancel","id":"after ` + id + `"}`)
		}
	}},
	{"End", func(w *worker, events []*grapnel.Event) {
		places := min(max(w.hello.Concurrency, 1), 32)
		for i := range places {
			w.ask(fmt.Sprint(i), events[i%len(events)], "")
		}
		w.end()
		for i := range places {
			w.answer(fmt.Sprint(i), events[i%len(events)])
		}
	}},
}

// worker is a program under test.
type worker struct {
	t         testing.TB
	patience  time.Duration
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	stderr    bytes.Buffer    // read it only after the program has ended
	messages  chan outputLine // closed at the end of the output
	hello     *dialect.Message
	asked     map[string]bool // events without an answer
	cancelled map[string]bool
	early     map[string]*dialect.Message // answers received before the suite waited for them
	exit      chan struct{}               // closed when the program has ended; nil = exits was not called yet
	failure   error                       // error of Wait
	ended     bool
}

// outputLine is one line of the program's output.
type outputLine struct {
	message *dialect.Message
	err     error
}

// startWorker starts the program and waits for its hello.
func startWorker(t testing.TB, patience time.Duration, args []string) *worker {
	t.Helper()
	w := &worker{
		t: t, patience: patience, messages: make(chan outputLine, 1<<12), asked: map[string]bool{}, cancelled: map[string]bool{}, early: map[string]*dialect.Message{},
		cmd: exec.CommandContext(t.Context(), args[0], args[1:]...),
	}
	w.cmd.Stderr = &w.stderr
	w.cmd.WaitDelay = time.Second // child processes may keep the pipes open
	var stdout io.ReadCloser
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err == nil {
		stdout, err = w.cmd.StdoutPipe()
	}
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %q: %v", args, err)
	}
	t.Cleanup(w.kill)
	go func() {
		defer close(w.messages)
		for lines := bufio.NewReader(stdout); ; {
			line, err := lines.ReadBytes('\n')
			if len(bytes.TrimSpace(line)) > 0 {
				m, bad := dialect.ReadMessage(line)
				w.messages <- outputLine{m, bad}
			}
			if err != nil {
				return
			}
		}
	}()
	hello, err := dialect.Hello().Write()
	if err != nil {
		t.Fatal(err)
	}
	w.writeLine(string(hello[:len(hello)-2]) + `,"new":["unheard of"]}`)
	s := w.next("its hello")
	if s.message.Type != dialect.TypeHello {
		w.fatal("its first line has type %q, want a hello", s.message.Type)
	}
	if w.hello = s.message; w.hello.Name == "" {
		t.Errorf("its hello has no name")
	}
	return w
}

// writeLine writes one line to the program.
func (w *worker) writeLine(line string) {
	w.t.Helper()
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(w.stdin, line+"\n")
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			w.fatal("cannot write to its stdin: %v", err)
		}
	case <-time.After(w.patience):
		w.fatal("it did not read a line of %d bytes within %v", len(line), w.patience)
	}
}

// workerPatience is the time limit for one line: an interpreter on a busy machine is slow.
const workerPatience = 2 * time.Minute

// ask sends an event to the program, with further members in the envelope and in the event.
func (w *worker) ask(id string, ev *grapnel.Event, members string) {
	w.t.Helper()
	event, err := dialect.Plain().WriteEvent(ev)
	var line []byte
	if err == nil {
		event = []byte("{" + members + string(event[1:]))
		line, err = dialect.Message{Type: dialect.TypeEvent, ID: id, Event: event}.Write()
	}
	if err != nil {
		w.fatal("cannot write an event for it: %v", err)
	}
	w.asked[id] = true
	w.writeLine("{" + members + strings.TrimSuffix(string(line[1:]), "\n"))
}

// next waits for the program's next message.
func (w *worker) next(what string) outputLine {
	w.t.Helper()
	select {
	case s, ok := <-w.messages:
		if !ok {
			w.fatal("it ended before it sent %s", what)
		}
		if s.err == nil {
			s.err = s.message.Check(w.hello != nil)
		}
		if s.err != nil {
			w.fatal("%v", s.err)
		}
		return s
	case <-time.After(w.patience):
		w.fatal("%s did not come within %v", what, w.patience)
		return outputLine{}
	}
}

// answer waits for the answer to an event.
func (w *worker) answer(id string, ev *grapnel.Event) answer {
	w.t.Helper()
	for w.early[id] == nil {
		w.take(w.next(fmt.Sprintf("the answer to event %q", id)))
	}
	m := w.early[id]
	delete(w.early, id)
	out, err := m.ReadOutcome(ev)
	if err != nil && m.Error == "" {
		w.t.Errorf("%v\n\tevent %s\n\tanswer %s", err, sample.ShownEvent(ev), m.Outcome)
	}
	if err != nil && out.Decision == grapnel.Allow {
		w.t.Errorf("it allows although it failed: %v\n\tevent %s", err, sample.ShownEvent(ev))
	}
	return answer{out: out, err: err}
}

// take stores an answer.
func (w *worker) take(s outputLine) {
	w.t.Helper()
	switch m := s.message; {
	case m.Type != dialect.TypeAnswer:
	case !w.asked[m.ID]:
		w.fatal("%v", m.Unasked())
	default:
		delete(w.asked, m.ID)
		w.early[m.ID] = m
	}
}

// permitted fails the test if an engine would drop a part of the answer.
func (w *worker) permitted(ev *grapnel.Event, a answer) {
	w.t.Helper()
	(&hookSuite{spec: grapnel.Spec{Name: cmp.Or(w.hello.Name, "worker")}}).permitted(w.t, ev, a)
}

// end closes the program's input, and checks that the program answers all pending events and ends.
// Canceled events may stay without an answer.
func (w *worker) end() {
	w.t.Helper()
	if w.ended {
		return
	}
	_ = w.stdin.Close()
	late := time.After(w.patience)
	for open := true; open; {
		select {
		case s, ok := <-w.messages:
			if open = ok; ok && s.err != nil {
				w.fatal("%v", s.err)
			} else if ok {
				w.take(s)
			}
		case <-late:
			w.fatal("it did not exit within %v after the end of its input", w.patience)
		}
	}
	select { // the program may have closed its output without ending
	case <-w.exits():
		w.ended = true
		if w.failure != nil {
			w.t.Errorf("it ended with %v, want exit code 0%s", w.failure, w.quoted())
		}
	case <-late:
		w.fatal("it did not exit within %v after the end of its input", w.patience)
	}
	for id := range w.asked {
		if !w.cancelled[id] {
			w.t.Errorf("it ended without an answer to event %q, which it got before the end of its input%s", id, w.quoted())
		}
	}
}

// exits returns a channel that is closed when the program has ended. Call it after reading the
// output.
func (w *worker) exits() <-chan struct{} {
	if w.exit == nil {
		w.exit = make(chan struct{})
		go func() {
			defer close(w.exit)
			w.failure = w.cmd.Wait()
		}()
	}
	return w.exit
}

// kill ends the program, even if another process holds its output.
func (w *worker) kill() {
	if w.ended {
		return
	}
	w.ended = true
	_ = w.cmd.Process.Kill()
	go func() {
		for range w.messages { // drain, so that the reader does not block
		}
	}()
	<-w.exits()
}

// fatal ends the test and shows the program's standard error.
func (w *worker) fatal(format string, args ...any) {
	w.t.Helper()
	w.kill()
	w.t.Fatalf(format+"%s", append(args, w.quoted())...)
}

// quoted returns the program's standard error for a failure message. Call it after the program has
// ended.
func (w *worker) quoted() string {
	if stderr, err := json.Marshal(strings.TrimSpace(w.stderr.String())); err == nil && len(stderr) > 2 {
		return "\n\tstderr " + sample.Short(string(stderr))
	}
	return ""
}
