// Package systemtest helps to test the readers of other systems' hook files.
package systemtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// EventOf parses a payload of an agent.
func EventOf(t *testing.T, agent, payload string) *grapnel.Event {
	t.Helper()
	d, ok := dialect.FindAgent(agent)
	if !ok {
		t.Fatalf("there is no agent %q", agent)
	}
	ev, err := d.Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/p","transcript_path":"/t",` + payload + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// Listens reports whether the only hook of a file Listens to an event.
func Listens(t *testing.T, h *hookfiles.Hook, ev *grapnel.Event) (bool, error) {
	t.Helper()
	spec := grapnel.Spec{Name: "x", On: h.On, Match: h.Matcher, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block}, nil
	})}
	if h.Match != nil {
		m, err := (&match.FactCache{}).Matcher(h.Match, nil, "", match.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := m.Match(ev, nil); err != nil || !ok {
			// The match of a policy that replaces a matcher never matches less.
			if h.Matcher != nil && h.Match.Path == nil {
				if ok, _ := h.Matcher.Match(ev, nil); ok {
					t.Errorf("%v Listens, and %v would not", h.Matcher, h.Match.Tool)
				}
			}
			return false, err
		}
	}
	e, err := grapnel.New([]grapnel.Spec{spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := e.Plan(ev)
	if len(plan.Entries) == 0 {
		return false, nil
	}
	if why := plan.Entries[0].Error; why != "" {
		return false, fmt.Errorf("%s", why)
	}
	return true, nil
}

// Text describes the hooks of parsed files.
func Text(f hookfiles.Found) string {
	var b strings.Builder
	for _, h := range f.Hooks {
		if h.Off {
			continue
		}
		fmt.Fprintf(&b, "hook %q: file %d line %d %s on %v", h.Name, h.FileIndex, h.Line, h.At, h.On)
		if h.Timeout > 0 {
			fmt.Fprintf(&b, " timeout %v", time.Duration(h.Timeout))
		}
		if h.OnError != "" {
			fmt.Fprintf(&b, " on_error %s", h.OnError)
		}
		if h.Priority != nil {
			fmt.Fprintf(&b, " priority %d", *h.Priority)
		}
		if h.Sequential {
			b.WriteString(" sequential")
		}
		b.WriteByte('\n')
		writeCommand(&b, h.Run)
		if m := h.Match; m != nil {
			fmt.Fprintf(&b, "\tmatch tool %v\n", m.Tool)
		}
		if e, ok := h.Matcher.(seam.Explainer[grapnel.Event, grapnel.Verdict]); ok {
			if text := e.Explain(nil, nil); text != "" {
				fmt.Fprintf(&b, "\t%s\n", text)
			}
		}
		for _, unsupported := range h.Unsupported {
			fmt.Fprintf(&b, "\tlost: %s\n", unsupported)
		}
	}
	for _, kind := range []struct {
		name string
		list []*policyfile.Error
	}{{"broken", f.Broken}, {"error", f.Errors}, {"note", f.Notes}} {
		for _, err := range kind.list {
			fmt.Fprintf(&b, "%s %v\n", kind.name, err)
		}
	}
	return b.String()
}

func writeCommand(b *strings.Builder, c *policyfile.Command) {
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\trun %s:", c.Speaks)
	if c.Args != nil {
		fmt.Fprintf(b, " %q", c.Args)
	} else {
		fmt.Fprintf(b, " %s", c.Line)
	}
	if c.Async {
		b.WriteString(" (async)")
	}
	if c.Scope != grapnel.ScopeUser {
		fmt.Fprintf(b, " (%v)", c.Scope)
	}
	if len(c.Vars) > 0 {
		fmt.Fprintf(b, " %q", c.Vars)
	}
	b.WriteByte('\n')
}
