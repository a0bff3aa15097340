//go:build system && unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// traced runs the agent. It appends each event, with its decision, the hooks that made it and their
// changes, to the file in AGENT_TRACE.
func traced() {
	if name := os.Getenv("AGENT_TRACE"); name != "" {
		out, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		observers = append(observers, &trace{out: out})
	}
	main()
}

// A trace prints Records.
type trace struct {
	out io.Writer
	mu  sync.Mutex
}

// maxShown is the maximum length of a changed value in the trace.
const maxShown = 200

// Observe prints a Record. It implements [grapnel.Observer].
func (t *trace) Observe(_ context.Context, rec *grapnel.Record) {
	text := t.text(rec)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, text)
}

func (t *trace) text(rec *grapnel.Record) string {
	var b strings.Builder
	word := rec.Decision.String()
	if rec.Decision == grapnel.None {
		word = "-"
	}
	fmt.Fprintf(&b, "%-17s %-6s %s %8.2f ms", rec.Event, inLine(rec.Tool), fmt.Sprintf("%-5s", word), rec.MS)
	if in := rec.Input; in != nil {
		if in.Tool != nil && in.Tool.ID != "" {
			b.WriteString("  " + inLine(in.Tool.ID))
		}
		if in.Session.Subagent != nil {
			b.WriteString("  in a sub-agent")
		}
	}
	b.WriteByte('\n')
	detail := func(what, text string) {
		text = inLine(text)
		if len(text) > maxShown {
			text = strings.ToValidUTF8(text[:maxShown], "") + " ..."
		}
		fmt.Fprintf(&b, "    %-8s %s\n", what, text)
	}
	for i := range rec.Hooks {
		run := &rec.Hooks[i]
		detail("by", fmt.Sprintf("%s (%s): %s", run.Name, place(run), strings.Join(deeds(run), ", ")))
	}
	for _, r := range rec.Reasons {
		detail("because", r.Text)
	}
	if v := rec.Verdict; v != nil {
		for _, field := range rec.Changed {
			for _, text := range changes(rec.Input, field, v.Changes[field]) {
				detail("now", text)
			}
		}
		for _, text := range v.Context {
			detail("context", text)
		}
	}
	if rec.Halt != "" {
		detail("halt", rec.Halt)
	}
	return b.String()
}

// deeds returns the effects of a hook.
func deeds(run *grapnel.HookRun) (did []string) {
	add := func(text string, done bool) {
		if done {
			did = append(did, text)
		}
	}
	add(run.Decision.String(), run.Decision != grapnel.None)
	for _, field := range run.Changed {
		add("sets "+string(field), true)
	}
	add("adds context", run.Outcome != nil && len(run.Outcome.Context) > 0)
	add("informs the user", run.Outcome != nil && run.Outcome.Message != "")
	add("ends the turn", run.Halt)
	add("its allow is ignored", run.Expired)
	add("runs later", run.Async)
	add("failed: "+run.Error, run.Error != "")
	add("no opinion", len(did) == 0)
	return did
}

// changes returns the new value of a field. For an object it returns only the changed members.
func changes(in *grapnel.Event, field grapnel.Field, now json.RawMessage) []string {
	var was json.RawMessage
	switch {
	case in == nil:
	case field == grapnel.FieldInput && in.Tool != nil:
		was = in.Tool.Input
	case field == grapnel.FieldRequest && in.Model != nil:
		was = in.Model.Request
	case field == grapnel.FieldMessage && in.Message != nil:
		was = in.Message.Raw
	}
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(now, &after) != nil {
		return []string{fmt.Sprintf("%s = %s", field, now)}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !bytes.Equal(before[name], after[name]) {
			all = append(all, fmt.Sprintf("%s.%s = %s", field, name, after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			all = append(all, fmt.Sprintf("%s.%s was removed", field, name))
		}
	}
	return all
}

// inLine returns a text as a single line.
func inLine(text string) string { return strings.Join(strings.Fields(plain(text)), " ") }

// place returns the position of a hook: FILE:LINE.
func place(run *grapnel.HookRun) string {
	if run.Line == 0 {
		return run.Source
	}
	return fmt.Sprintf("%s:%d", filepath.Base(run.Source), run.Line)
}
