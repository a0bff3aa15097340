package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// limited is a policy in an engine, with a clock of the test for its limits.
type limited struct {
	*grapnel.Engine
	clock   time.Time
	records []grapnel.Record
}

// Observe stores Records.
func (l *limited) Observe(_ context.Context, rec *grapnel.Record) {
	l.records = append(l.records, *rec)
}

// asks answers like a program of the policy.
type asks func(*grapnel.Event) (grapnel.Outcome, error)

func newLimited(t testing.TB, hooks string, counter state.Counter, program asks) *limited {
	t.Helper()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n"+hooks))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", hooks, errs)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again policyfile.Policy // the engine runs the policy as decoded from a snapshot
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	specs, err := policy.Build(&again, grapnel.Source{Name: "p.yaml", File: "p.yaml"}, func(policyfile.Command) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) { return program(ev) })
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{clock: time.Unix(1_800_000_000, 0)}
	if counter != nil {
		specs = state.Together(specs, counter)
	}
	for i := range specs {
		state.SetClock(&specs[i], func() time.Time { return l.clock })
	}
	if l.Engine, err = grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{l}}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *limited) fire(ev *grapnel.Event) grapnel.Verdict { return l.Fire(context.Background(), ev) }

// wants fires calls and checks how many of them continue.
func (l *limited) wants(t *testing.T, calls, goOn int, what string, ev func(i int) *grapnel.Event) {
	t.Helper()
	passed := 0
	for i := range calls {
		if l.fire(ev(i)).Decision == grapnel.None {
			passed++
		}
	}
	if passed != goOn {
		t.Errorf("%s: %d of %d go on, want %d", what, passed, calls, goOn)
	}
}

func TestLimitBy(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]int{ // of two calls each of 2 sessions x 2 tools x 2 agents x 2 users, at 1 each
		"": 1, ", by: session": 2, ", by: tool": 2, ", by: agent": 2, ", by: user": 2,
		", by: [session, tool]": 4, ", by: [user, agent, tool, session]": 16,
	} {
		l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 1, per: 1h"+by+"}}\n", nil, nil)
		l.wants(t, 32, want, "limit"+by, func(i int) *grapnel.Event {
			bit := func(n int) string { return fmt.Sprint(i >> n & 1) }
			ev := fixture.Call("s"+bit(0), "t"+bit(1), `{}`, fmt.Sprint(i))
			ev.Agent.Name, ev.Session.User = "a"+bit(2), "u"+bit(3)
			return ev
		})
	}
}

func TestLimitSlides(t *testing.T) {
	t.Parallel()
	l := newLimited(t, "  - {name: slow, on: tool.before, limit: {count: 2, per: 1m, by: session}, message: too fast}\n", nil, nil)
	next := 0
	call := func() grapnel.Verdict {
		next++
		return l.fire(fixture.Call("s", "Bash", `{}`, fmt.Sprint(next)))
	}
	at := func(second int, want grapnel.Decision) grapnel.Verdict {
		t.Helper()
		l.clock = time.Unix(1_800_000_000, 0).Add(time.Duration(second) * time.Second)
		v := call()
		if v.Decision != want {
			t.Errorf("at %d s: %v, want %v (%s)", second, v.Decision, want, v.Reason())
		}
		return v
	}
	at(0, grapnel.None)
	at(40, grapnel.None)
	v := at(50, grapnel.Block)
	if want := `The limit "slow" is reached: 2 in 1m per session. Try again in 10s, at ` + l.clock.Add(10*time.Second).Format("15:04:05") + "."; v.Reason() != want {
		t.Errorf("reason %q, want %q", v.Reason(), want)
	}
	if !slices.Equal(v.Messages, []string{"too fast"}) {
		t.Errorf("messages %q", v.Messages)
	}
	for second := 51; second < 60; second++ { // blocked calls do not extend the limit
		at(second, grapnel.Block)
	}
	at(60, grapnel.None)
	at(61, grapnel.Block)
	at(99, grapnel.Block)
	at(100, grapnel.None)
}

func TestLimitThen(t *testing.T) {
	t.Parallel()
	l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 1, per: 1m, then: ask, reason: Once more?}}\n", nil, nil)
	l.wants(t, 1, 1, "the first", func(int) *grapnel.Event { return fixture.Call("s", "Bash", `{}`, "1") })
	if v := l.fire(fixture.Call("s", "Bash", `{}`, "2")); v.Decision != grapnel.Ask || v.Reason() != "Once more?" {
		t.Errorf("%v %q, want the question", v.Decision, v.Reason())
	}
}

// An action counts once, even if its hooks are called several times for it.
func TestLimitCountsAnActionOnce(t *testing.T) {
	t.Parallel()
	t.Run("by the ID of the call", func(t *testing.T) {
		t.Parallel()
		l := newLimited(t, "  - {name: x, on: [tool.before, permission.before], limit: {count: 2, per: 1h}}\n", nil, nil)
		fire := func(kind grapnel.Kind, session, id string, want grapnel.Decision) {
			t.Helper()
			ev := fixture.Call(session, "Bash", `{}`, id)
			ev.Kind = kind
			if v := l.fire(ev); v.Decision != want {
				t.Errorf("%s %s of %s: %v, want %v", kind, id, session, v.Decision, want)
			}
		}
		fire(grapnel.ToolBefore, "s", "1", grapnel.None)
		fire(grapnel.PermissionBefore, "s", "1", grapnel.None)
		fire(grapnel.ToolBefore, "r", "1", grapnel.None) // the first call of another session
		fire(grapnel.ToolBefore, "s", "1", grapnel.None)
		fire(grapnel.ToolBefore, "s", "2", grapnel.Block)
		fire(grapnel.ToolBefore, "r", "1", grapnel.None)
		l.clock = l.clock.Add(state.SameCall) // an agent that numbers its calls from the start in each turn
		fire(grapnel.ToolBefore, "s", "1", grapnel.Block)
	})
	t.Run("a prompt that does not say which call it is about", func(t *testing.T) {
		t.Parallel()
		l := newLimited(t, "  - {name: x, on: [tool.before, permission.before], limit: {count: 2, per: 1h}}\n", nil, nil)
		prompt := func(line string) *grapnel.Event {
			ev := fixture.Call("s", "Bash", `{"command":"`+line+`"}`, "")
			ev.Kind = grapnel.PermissionBefore
			return ev
		}
		l.wants(t, 1, 1, "a call", func(int) *grapnel.Event { return fixture.Call("s", "Bash", `{"command":"ls"}`, "1") })
		l.wants(t, 3, 3, "its prompt", func(int) *grapnel.Event { return prompt("ls") })
		l.wants(t, 3, 1, "prompts without calls", func(int) *grapnel.Event { return prompt("pwd") })
	})
	t.Run("in the second round", func(t *testing.T) {
		t.Parallel()
		rewrite := func(ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"ls -l"}`)}}, nil
		}
		l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 2, per: 1h}}\n  - {name: p, on: tool.before, run: p}\n", nil, rewrite)
		l.wants(t, 4, 2, "calls without an ID that a program changes", func(int) *grapnel.Event { return fixture.Call("s", "Bash", `{"command":"ls"}`, "") })
		rounds := 0
		for _, run := range l.records[0].Hooks {
			if run.Name == "x" {
				rounds++
			}
		}
		if rounds != 2 {
			t.Errorf("the limit was asked %d times about one call, and this test is about 2", rounds)
		}
	})
	t.Run("a sum that grows", func(t *testing.T) {
		t.Parallel()
		l := newLimited(t, "  - {name: x, on: [tool.before, permission.before], limit: {sum: tool.input.n, max: 10, per: 1h}}\n", nil, nil)
		const call, prompt = grapnel.ToolBefore, grapnel.PermissionBefore
		for _, tt := range []struct {
			n    int
			id   string
			kind grapnel.Kind
			want grapnel.Decision
		}{
			{6, "1", call, grapnel.None},
			{8, "1", prompt, grapnel.None}, // a hook has increased it
			{2, "1", prompt, grapnel.None},
			{3, "2", call, grapnel.Block},
			{2, "2", call, grapnel.None},
			{9, "1", prompt, grapnel.Block},
			{8, "1", prompt, grapnel.None},
			{1, "1", call, grapnel.Block}, // another call with the same ID
		} {
			ev := fixture.Call("s", "pay", fmt.Sprintf(`{"n":%d}`, tt.n), tt.id)
			ev.Kind = tt.kind
			if v := l.fire(ev); v.Decision != tt.want {
				t.Errorf("%d of call %s at %s: %v, want %v", tt.n, tt.id, tt.kind, v.Decision, tt.want)
			}
		}
	})
}

// A call that another rule blocks does not count, in any order of the rules.
func TestLimitLeavesOutWhatIsBlocked(t *testing.T) {
	t.Parallel()
	for _, hooks := range []string{
		"  - {name: no-rm, on: tool.before, match: {command: rm}, block: no}\n  - {name: x, on: tool.before, limit: {count: 1, per: 1h}}\n",
		"  - {name: x, on: tool.before, limit: {count: 1, per: 1h}}\n  - {name: no-rm, on: [tool.after, tool.before], match: {command: rm}, block: no}\n",
	} {
		l := newLimited(t, hooks, nil, nil)
		l.wants(t, 3, 0, "rm", func(i int) *grapnel.Event { return fixture.Call("s", "Bash", `{"command":"rm x"}`, fmt.Sprint(i)) })
		l.wants(t, 3, 1, "ls", func(i int) *grapnel.Event { return fixture.Call("s", "Bash", `{"command":"ls"}`, fmt.Sprint(10+i)) })
	}
	// A rule in observe mode does not block.
	l := newLimited(t, "  - {name: no, on: tool.before, mode: observe, block: no}\n  - {name: x, on: tool.before, limit: {count: 1, per: 1h}}\n", nil, nil)
	l.wants(t, 3, 1, "observed", func(i int) *grapnel.Event { return fixture.Call("s", "Bash", `{}`, fmt.Sprint(i)) })
}

func TestLimitObserves(t *testing.T) {
	t.Parallel()
	l := newLimited(t, "  - {name: x, on: tool.before, mode: observe, limit: {count: 2, per: 1h}}\n", nil, nil)
	l.wants(t, 4, 4, "observed", func(i int) *grapnel.Event { return fixture.Call("s", "Bash", `{}`, fmt.Sprint(i)) })
	for i, rec := range l.records {
		if want := []grapnel.Decision{grapnel.None, grapnel.None, grapnel.Block, grapnel.Block}[i]; rec.Would != want {
			t.Errorf("call %d: would %v, want %v", i+1, rec.Would, want)
		}
	}
}

func TestLimitSum(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		Limit  string
		inputs []string
		want   string // n = continues, b = is blocked
		reason string // reason of the last call
	}{
		"a member":         {"sum: tool.input.amount, max: 100", []string{`{"amount":60}`, `{"amount":50}`, `{"amount":40}`, `{"amount":0}`, `{"amount":0.01}`}, "nbnnb", "a sum of 100 in 1h of tool.input.amount. 100 is used, and this needs 0.01. Try again in 1h, at"},
		"too much at once": {"sum: tool.input.amount, max: 1000000", []string{`{"amount":1000001}`}, "b", "a sum of 1000000 in 1h of tool.input.amount. 0 is used, and this needs 1000001. This alone exceeds the limit."},
		"no rounding":      {"sum: tool.input.amount, max: 0.3", []string{`{"amount":0.1}`, `{"amount":0.1}`, `{"amount":0.1}`, `{"amount":0.1}`}, "nnnb", "0.3 is used,"},
		"an expression":    {"sum: len(tool.command), max: 5", []string{`{"command":"ls"}`, `{"command":"pwd"}`, `{"command":"a"}`}, "nnb", "a sum of 5 in 1h of len(tool.command)"},
		"whole numbers":    {"sum: tool.input.a + 2 * tool.input.b, max: 5", []string{`{"a":1,"b":2}`, `{"a":1,"b":0}`}, "nb", ""},
		"text":             {"sum: float(tool.input.n), max: 5", []string{`{"n":"4.5"}`, `{"n":"4.5"}`}, "nb", ""},

		// A value that cannot be counted is an error, and a limit fails closed.
		"negative":    {"sum: tool.input.amount, max: 100", []string{`{"amount":-5}`}, "b", `hook "x" could not answer: sum: tool.input.amount is -5 for this event, want a number from 0 on`},
		"not there":   {"sum: tool.input.amount, max: 100", []string{`{}`}, "b", `hook "x" could not answer: sum: tool.input.amount is not a number for this event`},
		"no number":   {"sum: tool.input.amount, max: 100", []string{`{"amount":"5"}`}, "b", `hook "x" could not answer: sum: tool.input.amount is not a number for this event`},
		"not finite":  {"sum: 1 / tool.input.n, max: 100", []string{`{"n":0}`}, "b", "want a number from 0 on"},
		"a huge one":  {"sum: tool.input.n, max: 100", []string{`{"n":1e308}`, `{"n":1e308}`, `{"n":1}`}, "bbn", ""},
		"not a table": {"sum: tool.input.amount, max: 100", []string{`[]`}, "b", `hook "x" could not answer: sum: tool.input.amount is not a number for this event`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, "  - {name: x, on: tool.before, limit: {"+tt.Limit+", per: 1h}}\n", nil, nil)
			got, reason := "", ""
			for i, input := range tt.inputs {
				v := l.fire(fixture.Call("s", "pay", input, fmt.Sprint(i)))
				got += map[grapnel.Decision]string{grapnel.None: "n", grapnel.Block: "b"}[v.Decision]
				reason = v.Reason()
			}
			if got != tt.want || !strings.Contains(reason, tt.reason) {
				t.Errorf("%s: %s %q, want %s %q", tt.inputs, got, reason, tt.want, tt.reason)
			}
		})
	}
}

// failing is a Counter that cannot count, or that has other bytes under each key.
type failing struct {
	counts.Memory
	err  error
	kept []byte
}

func (f *failing) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	if f.err != nil {
		return f.err
	}
	if f.kept != nil {
		_ = f.Memory.Count(owner, key, func([]byte) ([]byte, time.Duration) { return f.kept, time.Hour })
		f.kept = nil
	}
	return f.Memory.Count(owner, key, change)
}

// A limit that cannot count fails as its on_error requires; the default is closed.
func TestLimitThatCannotCount(t *testing.T) {
	t.Parallel()
	for onError, want := range map[string]grapnel.Decision{"": grapnel.Block, ", on_error: open": grapnel.None, ", on_error: ask": grapnel.Ask} {
		l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 1, per: 1h}"+onError+"}\n", &failing{err: errors.New("disk full")}, nil)
		for range 2 {
			if v := l.fire(fixture.Call("s", "Bash", `{}`, "")); v.Decision != want || l.records[0].Hooks[0].Error != "disk full" {
				t.Errorf("limit%s: %v, %+v, want %v", onError, v.Decision, l.records[0].Hooks, want)
			}
		}
	}
}

// A damaged count causes one error, and counting starts again: it neither opens the gate nor
// locks it forever.
func TestLimitWithABrokenCount(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{
		"", "x", "[]", `{"used":[{"at":-1,"amount":1}]}`, `{"used":[{"at":1,"amount":-100}]}`, `{"used":[{"at":2,"amount":1},{"at":1,"amount":1}]}`,
		`{"used":[{"at":1e99,"amount":1}]}`, `{"calls":[` + strings.Repeat(`{},`, state.KeepCalls) + `{}]}`,
	} {
		l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 2, per: 1h}}\n", &failing{kept: []byte(kept)}, nil)
		got := ""
		for i := range 4 {
			v := l.fire(fixture.Call("s", "Bash", `{}`, fmt.Sprint(i)))
			got += map[grapnel.Decision]string{grapnel.None: "n", grapnel.Block: "b"}[v.Decision]
			if i == 0 && !strings.Contains(v.Reason(), "restarts at 0") {
				t.Errorf("%q: %q", kept, v.Reason())
			}
		}
		if got != "bnbb" { // the first call is an error, and counts
			t.Errorf("%q: %s, want bnbb", kept, got)
		}
	}
	// A time in the future counts from now on.
	l := newLimited(t, "  - {name: x, on: tool.before, limit: {count: 1, per: 1h}}\n", &failing{kept: []byte(`{"used":[{"at":9000000000000000000,"amount":1e300}]}`)}, nil)
	for i, want := range []grapnel.Decision{grapnel.Block, grapnel.Block, grapnel.None} {
		if v := l.fire(fixture.Call("s", "Bash", `{}`, fmt.Sprint(i))); v.Decision != want {
			t.Errorf("after %d half hours: %v, want %v", i, v.Decision, want)
		}
		l.clock = l.clock.Add(30 * time.Minute)
	}
}

// A limit or an `after:` whose session has no room left asks a person, and lets other sessions alone.
func TestNoRoomAsks(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"limit":         "limit: {count: 5, per: 1h, by: [session, tool]}",
		"closed limit":  "limit: {count: 5, per: 1h, by: [session, tool]}, on_error: closed",
		"open limit":    "limit: {count: 5, per: 1h, by: [session, tool]}, on_error: open",
		"earlier event": "after: {event: tool.before, match: {command: a}, by: [session, tool]}, block: no",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := &counts.Memory{}
			call := did(grapnel.ToolBefore, "a", "1")
			for i := range counts.MaxKeys {
				if err := memory.Count(state.SessionOwner(call), fmt.Sprint(i), func([]byte) ([]byte, time.Duration) { return []byte("x"), time.Hour }); err != nil {
					t.Fatal(err)
				}
			}
			l := newAfter(t, "  - {name: x, on: tool.before, "+rule+"}\n", memory)
			want := grapnel.Ask
			if name == "open limit" {
				want = grapnel.None
			}
			if v := l.fire(call); v.Decision != want {
				t.Errorf("%v, want %v", v.Decision, want)
			}
			other := did(grapnel.ToolBefore, "a", "2")
			other.Session.ID = "other"
			if v := l.fire(other); v.Decision != grapnel.None {
				t.Errorf("another session: %v", v.Decision)
			}
		})
	}
}
