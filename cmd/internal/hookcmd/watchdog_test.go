package hookcmd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
)

// The watchdog replies after the hooks' budget and before the agent's timeout.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		for i := range d.Events {
			row := &d.Events[i]
			wait, budget := install.DefaultTimeout, dialect.DefaultBudget
			if row.Wait > 0 {
				wait = row.Wait
			}
			if row.Budget > 0 {
				budget = row.Budget
			}
			if got := patience(row.Budget); got <= budget || got >= wait {
				t.Errorf("%s %s: the watchdog replies after %v, want between %v and %v", d.Name, row.Native, got, budget, wait)
			}
		}
	}
}

const (
	toolCall = `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`
	prompt   = `{"session_id":"s","cwd":"/","hook_event_name":"UserPromptSubmit","prompt":"hello"}`
	stop     = `{"session_id":"s","cwd":"/","hook_event_name":"Stop"}`
)

// An event that is not judged in time gets the fail-closed reply: tools are blocked, prompts and
// stops pass.
func TestWatchdogDeadline(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		payload string
		blocked bool
	}{
		"a tool":        {toolCall, true},
		"a prompt":      {prompt, false},
		"a stop":        {stop, false},
		"nothing read":  {"", true},
		"half a prompt": {prompt[:20], true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := local.Place{Policy: "/etc/passwd", State: t.TempDir()}
			synctest.Test(t, func(t *testing.T) {
				inv := invocation{}
				w := newWatchdog(&inv, dialect.ClaudeCode(), false)
				w.found(place)
				if tt.payload != "" {
					w.read(dialect.Input{Payload: []byte(tt.payload)})
				}
				begun := time.Now()
				result := w.run(t.Context(), func(ctx context.Context) worked {
					<-ctx.Done() // the budget of the hooks does not end this hang
					return worked{reply: dialect.Reply{Stdout: []byte("late")}}
				})
				if took := time.Since(begun); took != patience(0) {
					t.Errorf("replied after %v, want %v", took, patience(0))
				}
				if blocked := strings.Contains(string(result.reply.Stdout), `"deny"`) || strings.Contains(string(result.reply.Stdout), `"block"`); blocked != tt.blocked {
					t.Errorf("reply %q and %q, want blocked=%v", result.reply.Stdout, result.reply.Stderr, tt.blocked)
				}
				if !strings.Contains(string(result.reply.Stdout)+string(result.reply.Stderr), "this event was not judged within 57s") || strings.Contains(string(result.reply.Stdout), "late") {
					t.Errorf("reply %q and %q, want the reason", result.reply.Stdout, result.reply.Stderr)
				}
				w.settle()
			})
		})
	}
}

// There is exactly one reply for any end of the work: the reply of the work, or the fail-closed
// one. After the fail-closed reply, the work writes no Record.
func TestWatchdogGivesOneReply(t *testing.T) {
	t.Parallel()
	limit := patience(0)
	for _, took := range []time.Duration{0, time.Millisecond, listenAfter, limit - 1, limit, limit + 1, limit + time.Minute} {
		state := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			records := 0
			inv := invocation{}
			w := newWatchdog(&inv, dialect.ClaudeCode(), false)
			w.found(local.Place{Policy: "/etc/passwd", State: state})
			w.read(dialect.Input{Payload: []byte(toolCall)})
			ended := make(chan struct{})
			result := w.run(t.Context(), func(context.Context) worked {
				defer close(ended)
				time.Sleep(took)
				f := &firing{watch: w, sink: counting{&records}, policies: func() string { return "" }}
				f.Observe(t.Context(), &grapnel.Record{})
				return worked{reply: dialect.Reply{Stdout: []byte("judged")}}
			})
			judged := string(result.reply.Stdout) == "judged"
			if !judged && !strings.Contains(string(result.reply.Stdout), `"deny"`) {
				t.Errorf("%v: reply %q, want one of two", took, result.reply.Stdout)
			}
			if took < limit && !judged || took > limit && judged {
				t.Errorf("%v: judged = %v, the limit is %v", took, judged, limit)
			}
			w.settle()
			<-ended
			if took != limit && (records == 1) != judged {
				t.Errorf("%v: judged = %v, and the work left %d Records", took, judged, records)
			}
		})
	}
}

type counting struct{ n *int }

func (c counting) Observe(context.Context, *grapnel.Record) { *c.n++ }

func (c counting) Run(context.Context, *grapnel.Event, []grapnel.Spec) error { return nil }

// The time for reading the event is subtracted from the budget of the hooks.
func TestBudgetCountsFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inv := invocation{}
		w := newWatchdog(&inv, nil, false)
		time.Sleep(9500 * time.Millisecond)
		ev := &grapnel.Event{Terms: &grapnel.Terms{Budget: dialect.DefaultBudget}}
		if w.received(ev); ev.Terms.Budget != dialect.DefaultBudget-9*time.Second {
			t.Errorf("after 9.5 s the budget is %v", ev.Terms.Budget)
		}
		if got := w.limit(); got != patience(dialect.DefaultBudget) {
			t.Errorf("limit() = %v, want %v", got, patience(dialect.DefaultBudget))
		}
	})
}
