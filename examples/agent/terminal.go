package main

import (
	"bufio"
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

// channel is what hooks call the place where prompts come from and answers go to.
const channel = "terminal"

// typedAhead is how long it takes at most to read what a terminal has kept.
const typedAhead = 50 * time.Millisecond

// A terminal is the person: what they type, what they are shown, what they consent to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	person   bool // somebody is there who can be asked
	plainOut bool // a terminal shows the answer, which must not steer it

	asking sync.Mutex  // one question at a time
	lines  chan string // what is typed; closed at its end
	early  []string    // typed before a question, and so no answer to it
	begun  sync.Once   // reading lines
	saying sync.Mutex  // one message at a time
	shown  string      // of the turn's answer
	sent   bool        // the answer of this turn went out
}

// isTerminal reports whether a person may sit at a stream. The null device is a
// character device too, and nobody sits there.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

func newTerminal(in io.Reader, out, err io.Writer) *terminal {
	return &terminal{
		in: in, out: out, err: err, lines: make(chan string, 100),
		person: isTerminal(in) && isTerminal(err), plainOut: isTerminal(out),
	}
}

// line is the next line that the person types. It is false at the end of the input.
func (t *terminal) line(ctx context.Context) (string, bool) {
	if len(t.early) > 0 {
		text := t.early[0]
		t.early = t.early[1:]
		t.say("%s", text) // as if it were typed now
		return text, true
	}
	return t.typed(ctx)
}

// read begins to read lines, when they are wanted for the first time: a program in the
// background that reads from its terminal is stopped. Who reads goes on until the program
// ends, since nothing can call back a read from a terminal.
func (t *terminal) read() {
	t.begun.Do(func() {
		go func() {
			defer close(t.lines)
			for lines := bufio.NewScanner(t.in); lines.Scan(); {
				t.lines <- lines.Text()
			}
		}()
	})
}

// typed waits for a line.
func (t *terminal) typed(ctx context.Context) (string, bool) {
	t.read()
	select {
	case text, ok := <-t.lines:
		return text, ok
	case <-ctx.Done():
		return "", false
	}
}

// say tells the person something beside the answer.
func (t *terminal) say(format string, args ...any) {
	t.saying.Lock()
	defer t.saying.Unlock()
	fmt.Fprint(t.err, plain(fmt.Sprintf(format, args...))+"\n")
}

// Approve asks the person. What is neither yes nor no is for the model to read, and
// that makes a prompt of it.
func (t *terminal) Approve(ctx context.Context, q *host.Question) (host.Consent, error) {
	s := host.FromContext(ctx)
	why := q.Reason
	if why == "" {
		why = "no rule allows it"
	}
	if !t.person {
		return host.Consent{Reason: "this needs the consent of a person, and there is no terminal to ask at: " + why}, nil
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	s.Notify(ctx, grapnel.Notification{Type: "permission", Title: "Consent is wanted", Message: why})
	t.read()
	for open := true; open; { // nobody has answered what was not asked yet
		var text string
		select {
		case text, open = <-t.lines:
			if open {
				t.early = append(t.early, text)
			}
		case <-time.After(typedAhead):
			open = false
		}
	}
	t.saying.Lock()
	fmt.Fprintf(t.err, "\n%s\n%s\ngo on? [y/N, or what to do instead] ", plain(why), subject(q.Event))
	t.saying.Unlock()
	text, ok := t.typed(ctx)
	switch answer := strings.ToLower(strings.TrimSpace(text)); {
	case !ok:
		return host.Consent{}, errors.New("the terminal was closed, or the turn cancelled")
	case answer == "y" || answer == "yes":
		return host.Consent{Yes: true}, nil
	case answer == "" || answer == "n" || answer == "no":
		return host.Consent{}, nil
	}
	reason, err := s.Prompt(ctx, text)
	if no := host.Refused(err); no != nil {
		return host.Consent{Reason: no.Text}, nil
	}
	return host.Consent{Reason: "the person did not agree and says: " + reason}, nil
}

// subject is what a question is about, whole: nobody agrees to what they cannot see.
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

// show prints an answer as it comes. Where the answer was sent as a whole there is
// nothing left to show.
func (t *terminal) show(_ context.Context, piece string) error {
	if t.sent {
		return nil
	}
	t.shown += piece
	return t.print(piece)
}

// deliver prints the answer, as far as it was not shown.
func (t *terminal) deliver(_ context.Context, m host.Outgoing) error {
	t.sent = true
	switch {
	case m.Suppressed:
		return t.print("(no answer: a hook has withheld it)\n")
	case m.Text != "" && strings.HasSuffix(t.shown, m.Text):
		return t.print("\n")
	case t.shown != "":
		return t.print("\n" + m.Text + "\n")
	default:
		return t.print(m.Text + "\n")
	}
}

func (t *terminal) print(text string) error {
	if t.plainOut {
		text = plain(text)
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// endLine ends what was shown of an answer before the model goes on.
func (t *terminal) endLine() error {
	if t.shown == "" || strings.HasSuffix(t.shown, "\n") {
		return nil
	}
	t.shown += "\n"
	return t.print("\n")
}

// beginAnswer begins the answer of a turn.
func (t *terminal) beginAnswer() { t.shown, t.sent = "", false }

// plain keeps a text from steering the terminal: what a model writes could hide what a
// question is about.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.Is(unicode.C, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
