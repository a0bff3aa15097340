package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// channel is the channel name for prompts and answers in events.
const channel = "terminal"

// typedAhead is how long a question waits for input that the terminal has buffered. A busy machine
// needs some time to pass it on, and an early "y" must not answer a later question.
const typedAhead = 300 * time.Millisecond

// A terminal handles the user's input, output and consent.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	person   bool // a user can be asked

	asking sync.Mutex  // one question at a time
	lines  chan string // what is typed; closed at its end
	early  []string    // typed before a question was shown, so not an answer to it
	begun  sync.Once   // starts the reading of lines
	shown  string      // part of the turn's answer that was shown
	sent   bool        // the answer of this turn was sent
}

// isTerminal reports whether a user may be at a stream. The null device is also a character
// device, but has no user.
func isTerminal(stream any) bool {
	f, _ := stream.(*os.File)
	info, err := f.Stat()
	null, noNull := os.Stat(os.DevNull)
	return err == nil && noNull == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, null)
}

func newTerminal(in io.Reader, out, err io.Writer) *terminal {
	return &terminal{in: in, out: out, err: err, lines: make(chan string, 100), person: isTerminal(in) && isTerminal(err)}
}

// line returns the next line of the user. It returns false at the end of the input.
func (t *terminal) line(ctx context.Context) (string, bool) {
	if len(t.early) > 0 {
		text := t.early[0]
		t.early = t.early[1:]
		t.printf("%s", text) // shown as if it were typed now
		return text, true
	}
	return t.typed(ctx)
}

// typed waits for a line. It starts to read when the first one is needed, because the system stops a
// background program that reads from its terminal. The goroutine runs until the program ends, because
// a read from a terminal cannot be interrupted.
func (t *terminal) typed(ctx context.Context) (string, bool) {
	t.begun.Do(func() {
		go func() {
			defer close(t.lines)
			for lines := bufio.NewScanner(t.in); lines.Scan(); {
				t.lines <- lines.Text()
			}
		}()
	})
	select {
	case text, ok := <-t.lines:
		return text, ok
	case <-ctx.Done():
		return "", false
	}
}

// printf shows the user a message that is not part of the answer.
func (t *terminal) printf(format string, args ...any) {
	fmt.Fprint(t.err, plain(fmt.Sprintf(format, args...))+"\n")
}

// Approve asks the user. If the answer is neither yes nor no, it is a prompt for the model.
func (t *terminal) Approve(ctx context.Context, q *host.Question) (host.Consent, error) {
	s, why := host.SessionFromContext(ctx), cmp.Or(q.Reason, "no rule allows it")
	if !t.person {
		return host.Consent{Reason: "this needs the approval of a person, but the agent runs without a terminal: " + why}, nil
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	s.Notify(ctx, grapnel.Notification{Type: "permission", Title: "Approval needed", Message: why})
	ahead, stop := context.WithTimeout(ctx, typedAhead)
	for text, ok := t.typed(ahead); ok; text, ok = t.typed(ahead) { // lines typed before the question are not answers to it
		t.early = append(t.early, text)
	}
	stop()
	fmt.Fprintf(t.err, "\n%s\n%s\ncontinue? [y/N, or instructions for the agent] ", plain(why), subject(q.Event))
	text, ok := t.typed(ctx)
	switch answer := strings.ToLower(strings.TrimSpace(text)); {
	case !ok:
		return host.Consent{}, errors.New("the terminal was closed, or the turn was canceled")
	case answer == "y" || answer == "yes":
		return host.Consent{Yes: true}, nil
	case answer == "" || answer == "n" || answer == "no":
		return host.Consent{}, nil
	}
	reason, err := s.Prompt(ctx, text)
	if no := host.Refused(err); no != nil {
		return host.Consent{Reason: no.Text}, nil
	}
	return host.Consent{Reason: "the person did not agree: " + reason}, nil
}

// subject returns the complete subject of a question, so that users do not approve hidden text.
func subject(ev *grapnel.Event) string {
	text := string(ev.Kind)
	switch {
	case ev.Tool != nil:
		text = ev.Tool.Name + " " + string(ev.Tool.Input)
	case ev.Prompt != nil:
		text += " " + ev.Prompt.Text
	case ev.Message != nil:
		text += " " + ev.Message.Content
	}
	return "  " + strings.ReplaceAll(plain(text), "\n", "\n  ")
}

// show prints an answer while it arrives. It prints nothing if the complete answer was already
// sent.
func (t *terminal) show(_ context.Context, piece string) error {
	if t.sent {
		return nil
	}
	t.shown += piece
	return t.print(piece)
}

// deliver prints the part of the answer that was not shown yet.
func (t *terminal) deliver(_ context.Context, m host.Outgoing) error {
	t.sent = true
	switch {
	case m.Suppressed:
		return t.print("(no answer: a hook withheld it)\n")
	case m.Text != "" && strings.HasSuffix(t.shown, m.Text):
		return t.print("\n")
	case t.shown != "":
		return t.print("\n" + m.Text + "\n")
	}
	return t.print(m.Text + "\n")
}

func (t *terminal) print(text string) error {
	_, err := io.WriteString(t.out, plain(text))
	return err
}

// endLine ends the shown part of an answer before the model continues.
func (t *terminal) endLine() {
	if t.shown != "" && !strings.HasSuffix(t.shown, "\n") {
		t.shown += "\n"
		_ = t.print("\n") // the next piece has the same error
	}
}

// plain replaces control characters: otherwise a model could hide the subject of a question on
// the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.Is(unicode.C, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
