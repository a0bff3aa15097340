package dialect_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Grapnel answers before the agent's timeout, for any timeouts of its hooks. A hook that has
// not started when the time is used up is an error.
func TestBudget(t *testing.T) {
	t.Parallel()
	for native, budget := range map[string]time.Duration{"PreToolUse": dialect.DefaultBudget, "SessionEnd": 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			slow := grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
				<-ctx.Done()
				return grapnel.Outcome{}, context.Cause(ctx)
			})
			second := false
			var rec *grapnel.Record
			engine, err := grapnel.New([]grapnel.Spec{
				{Name: "patient", Hook: slow, Timeout: time.Hour, Priority: -1, OnError: grapnel.OnErrorOpen},
				{Name: "next", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
					second = true
					return grapnel.Outcome{}, nil
				}), OnError: grapnel.OnErrorClosed},
			}, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r })}})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			payload := `{"session_id":"s","cwd":"/","hook_event_name":"` + native + `","reason":"other","tool_name":"Bash","tool_input":{"command":"ls"}}`
			reply := dialect.Answer(t.Context(), engine, dialect.ClaudeCode(), dialect.Input{Payload: []byte(payload)})
			if took := time.Since(begun); took < budget || took > budget+time.Second {
				t.Errorf("%s: answered after %v, want %v", native, took, budget)
			}
			if second {
				t.Errorf("%s: a step started after the time was spent", native)
			}
			if len(rec.Hooks) != 2 || !strings.Contains(rec.Hooks[1].Error, "exceeded their common limit") {
				t.Errorf("%s: the Record says %+v, want that the time was spent", native, rec.Hooks)
			}
			if native == "PreToolUse" && !strings.Contains(string(reply.Stdout), `"deny"`) {
				t.Errorf("%s: reply %s, want a deny: a closed hook did not run", native, reply.Stdout)
			}
		})
	}
}
