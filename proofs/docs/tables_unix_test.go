//go:build unix

// Pages show paths in the form of Unix.

package docs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/systems"
)

// The markers around a generated part of a page. The text around the part is written by hand.
const (
	partBegin = "<!-- generated: %s; go test ./proofs/docs -update -->\n"
	partEnd   = "<!-- end -->\n"
)

// TestTables compares the tables in the pages with the tables of the code.
func TestTables(t *testing.T) {
	t.Parallel()
	checkParts(t, "events.md", map[string]string{"events": eventTable()})
	checkParts(t, "foreign-hooks.md", map[string]string{"formats": formatTable()})
}

// checkParts compares the generated parts of a page, or rewrites them.
func checkParts(t *testing.T, page string, parts map[string]string) {
	t.Helper()
	text := readPage(t, page)
	fresh := text
	for name, want := range parts {
		begin := fmt.Sprintf(partBegin, name)
		before, rest, ok := strings.Cut(fresh, begin)
		_, after, ended := strings.Cut(rest, partEnd)
		if !ok || !ended {
			t.Errorf("%s has no generated part %q: it wants the lines\n%s%s", page, name, begin, partEnd)
			continue
		}
		fresh = before + begin + "\n" + want + "\n" + partEnd + after
	}
	if fresh == text {
		return
	}
	if !*update {
		t.Errorf("%s is not what the tables say (-page +tables, go test ./proofs/docs -update rewrites):\n%s", page, cmp.Diff(text, fresh))
		return
	}
	if err := os.WriteFile(page, []byte(fresh), 0o600); err != nil {
		t.Error(err)
	}
}

// table returns a Markdown table.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			if cell != "" {
				cell = " " + strings.ReplaceAll(cell, "|", `\|`)
			}
			b.WriteString("|" + cell + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

func code[T ~string](word T) string { return "`" + string(word) + "`" }

// list joins the words that are not empty.
func list(words ...string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	return strings.Join(words, ", ")
}

func when(holds bool, word string) string {
	if holds {
		return word
	}
	return ""
}

func formatTable() string {
	var rows [][]string
	for _, f := range systems.Formats() {
		row := []string{code(f.Name), "none", "", "", ""}
		if f.Agent != "" {
			row[1] = code(f.Agent)
		}
		for i, patterns := range [][]string{f.User, f.Project, f.Managed} {
			var words []string
			for _, pattern := range patterns {
				words = append(words, code(pattern))
			}
			row[2+i] = list(words...)
		}
		rows = append(rows, row)
	}
	return table([]string{"format", "agent that runs these files itself", "user files", "project files", "managed files"}, rows)
}

func eventTable() string {
	var rows [][]string
	for _, c := range grapnel.Contracts() {
		row := []string{code(c.Kind), moments[c.Kind], blockMeans(&c), permits(&c), "`on_error`", "", senders(c.Kind)}
		if c.FailOpen {
			row[4] = "open"
		}
		if c.Stdout != "" {
			row[5] = c.Stdout
		}
		rows = append(rows, row)
	}
	return table([]string{"event", "when", "a block", "may be changed or added", "a failure", "plain stdout", "sent by"}, rows)
}

// moments describes when each event happens, for authors of policies.
var moments = map[grapnel.Kind]string{
	grapnel.GatewayStart:      "a program that runs agents starts",
	grapnel.GatewayStop:       "the program stops",
	grapnel.SessionStart:      "a session starts or is resumed",
	grapnel.SessionEnd:        "a session ends",
	grapnel.PromptBefore:      "a prompt was entered, the model has not seen it",
	grapnel.AgentBefore:       "the agent is about to work on a prompt",
	grapnel.AgentAfter:        "the agent is about to stop",
	grapnel.AgentFailed:       "the turn ended with an error",
	grapnel.ModelBefore:       "a request is about to go to the model",
	grapnel.ModelAfter:        "the model has answered, or a part of its answer has arrived",
	grapnel.ToolsetBefore:     "the agent is about to give the model its list of tools",
	grapnel.ToolBefore:        "a tool is about to run",
	grapnel.PermissionBefore:  "the agent is about to ask the user about a tool",
	grapnel.PermissionDenied:  "a tool was refused",
	grapnel.ToolAfter:         "a tool ran",
	grapnel.ToolFailed:        "a tool ran and failed",
	grapnel.ToolBatchAfter:    "all tools of one answer of the model ran",
	grapnel.TranscriptBefore:  "a message is about to be stored",
	grapnel.ResponseBefore:    "a text is about to be shown to the user",
	grapnel.MessageReceived:   "a message came in over a channel",
	grapnel.MessageBefore:     "a message is about to be sent over a channel",
	grapnel.MessageSent:       "a message was sent",
	grapnel.CompactBefore:     "the conversation is about to be shortened",
	grapnel.CompactAfter:      "the conversation was shortened",
	grapnel.SubagentStart:     "a sub-agent starts",
	grapnel.SubagentAfter:     "a sub-agent is about to stop",
	grapnel.TaskBefore:        "a task is about to be put on the list",
	grapnel.TaskAfter:         "a task is about to be declared done",
	grapnel.NotificationSent:  "the agent shows the user a notification",
	grapnel.ConfigBefore:      "the agent's own configuration is about to change",
	grapnel.ElicitationBefore: "a tool server asks the user a question",
}

func TestMoments(t *testing.T) {
	t.Parallel()
	for _, c := range grapnel.Contracts() {
		if kind := c.Kind; moments[kind] == "" {
			t.Errorf("the event %s has no description", kind)
		}
	}
	if len(moments) != len(grapnel.Contracts()) {
		t.Errorf("%d moments, %d events", len(moments), len(grapnel.Contracts()))
	}
}

func blockMeans(c *grapnel.Contract) string {
	switch c.Blocks {
	case grapnel.BlockingAction:
		return "the action does not happen"
	case grapnel.BlockingStop:
		return fmt.Sprintf("the agent continues, at most %d times in a row", c.MaxStops)
	case grapnel.BlockingFeedback:
		return "the model reads the reason"
	case grapnel.BlockingNothing:
	}
	return ""
}

func permits(c *grapnel.Contract) string {
	words := []string{when(c.Context, "context")}
	for _, change := range c.Changes {
		merge := map[string]string{
			"join": " (joined)", "intersect": " (narrowed)", "or": " (true if any hook sets true)",
		}[change.Merge]
		words = append(words, code(change.Field)+merge)
	}
	return list(append(words, when(c.Permit, "the answer to the agent's own prompt"))...)
}

// senders lists the agents that have an event.
func senders(kind grapnel.Kind) string {
	var names, others []string
	for _, d := range dialect.All() {
		switch {
		case d.Name == dialect.Plain().Name:
		case slices.ContainsFunc(d.Events, func(row dialect.EventRow) bool { return row.Kind == kind || row.Failed == kind }):
			names = append(names, code(d.Name))
		default:
			others = append(others, code(d.Name))
		}
	}
	switch {
	case len(others) == 0:
		return "all"
	case len(others) < len(names):
		return "all except " + list(others...)
	}
	return list(names...)
}

// settingsTable describes the settings with which an agent runs grapnel-hook.
func settingsTable(t *testing.T, a *install.Agent) string {
	t.Helper()
	file := func(scope install.Scope, env map[string]string) string {
		base := map[install.Scope]string{install.User: "/HOME", install.Project: "/PROJECT", install.Managed: "/"}[scope]
		name, err := a.Settings(scope, base, func(name string) string { return env[name] })
		if errors.Is(err, install.ErrUsage) {
			return ""
		} else if err != nil {
			t.Fatal(err)
		}
		return code(strings.NewReplacer("/HOME/", "~/", "/PROJECT/", "", "/MOVED", "$"+a.Setup.MovedBy).Replace(name))
	}
	setup := a.Setup
	plugin := setup.Shape == dialect.ShapePlugin
	place := "settings"
	switch {
	case setup.Shape == dialect.ShapeFiles:
		place = "directory of hooks"
	case plugin && len(setup.Edits) == 0:
		place = "plugin"
	case setup.Own:
		place = "file of hooks"
	}
	var rows [][]string
	add := func(what, is string) { rows = append(rows, []string{what, is}) }
	if len(a.Aliases) > 0 {
		add("other names on command lines", list(codes(a.Aliases)...))
	}
	add(place+", `--scope user`", file(install.User, nil))
	if moved := a.Setup.MovedBy; moved != "" {
		add("the same with `"+moved+"` set", file(install.User, map[string]string{moved: "/MOVED"}))
	}
	for _, scope := range []install.Scope{install.Project, install.Managed} {
		if name := file(scope, nil); name != "" {
			add(fmt.Sprintf("%s, `--scope %s`", place, scope), name)
		}
	}
	switch {
	case setup.Shape == dialect.ShapeFiles:
		add("the files in it", "one program per event, with the first unused name: "+strings.ReplaceAll(strings.Join(codes(setup.Files), ", "), "$event", "EVENT"))
	case plugin && len(setup.Edits) == 0 || setup.Own:
	default:
		add("comments in the settings", map[bool]string{true: "kept", false: "refused, because the agent does not accept them"}[setup.Comments])
	}
	if plugin {
		if len(setup.Edits) > 0 {
			add("the plugin", code("plugins/"+a.Name+"/grapnel")+" below Grapnel's state")
		}
		add("how long the plugin waits", setup.Deadline.String())
	} else {
		if setup.Unit == 0 && setup.Shape != dialect.ShapeFiles {
			add("how long the agent waits", "not configurable; Grapnel answers within "+fmt.Sprintf("%v", install.DefaultTimeout))
		} else if setup.Unit != 0 {
			add("how long the agent waits", fmt.Sprintf("%v", install.DefaultTimeout))
		}
		if setup.AskTimeout > 0 {
			var names []string
			for i := range a.Events {
				if row := &a.Events[i]; contractOf(row).Permit && !row.Never {
					names = append(names, code(row.Native))
				}
			}
			add("the same at "+list(names...), fmt.Sprintf("%v, so that a person can decide; Grapnel itself has [55 s](../run-a-program.md#time-limits)", setup.AskTimeout))
		}
	}
	waits := map[time.Duration][]string{}
	for _, ev := range a.Events {
		if ev.Wait > 0 {
			waits[ev.Wait] = append(waits[ev.Wait], code(ev.Native))
		}
	}
	for _, wait := range slices.Backward(slices.Sorted(maps.Keys(waits))) {
		what := "the same at "
		if plugin || setup.Unit == 0 {
			what = "how long the agent waits at "
		}
		add(what+list(waits[wait]...), wait.String())
	}
	failClosed := "not supported"
	if a.Setup.Late != "" {
		failClosed = "not supported: the agent " + a.Setup.Late
	}
	if plugin || strings.Contains(a.Setup.Entry, "$closed") {
		var names []string
		for _, ev := range a.Events {
			if ev.Closed {
				names = append(names, code(ev.Native))
			}
		}
		failClosed = "at " + list(names...)
		if since := a.Setup.ClosedSince; since != "" {
			failClosed = fmt.Sprintf("from %s on, %s", since, failClosed)
		}
	}
	return table([]string{"property", a.Title}, append(rows, []string{"`--fail-closed`", failClosed}))
}

func codes(words []string) []string {
	var list []string
	for _, word := range words {
		list = append(list, code(word))
	}
	return list
}

// agentEvents lists the events of an agent with the parts of a verdict that it supports, and the
// parts that become a block. A part that a run checked has a ✓. Events that differ only in their
// names share a row.
func agentEvents(d *dialect.Dialect, seen *verify.Report) string {
	var rows [][]string
	for i := range d.Events {
		row := &d.Events[i]
		kinds := ""
		if !row.Kind.Native() {
			kinds = code(row.Kind)
		}
		if row.Failed != "" {
			kinds = list(kinds, code(row.Failed)+" for a failure")
		}
		name := code(row.Native)
		if r := seenRow(seen, row.Native, "fires"); r != nil && r.Seen == "yes" {
			name += " ✓"
		}
		supported, asBlock := parts(d, row, seen)
		cells := []string{name, kinds, supported, asBlock, installed(row)}
		same := slices.IndexFunc(rows, func(other []string) bool { return slices.Equal(other[1:], cells[1:]) })
		if same >= 0 {
			rows[same][0] += ", " + name
			continue
		}
		rows = append(rows, cells)
	}
	return table([]string{"event", "in a policy", "supported", "becomes a block", "installed"}, rows)
}

// parts sorts the parts of a verdict that an event permits. The agent drops the others.
func parts(d *dialect.Dialect, row *dialect.EventRow, seen *verify.Report) (supported, asBlock string) {
	can := row.Permits()
	var yes, block []string
	named := map[grapnel.Field]bool{}
	for _, word := range verify.Words() {
		claim, name := verify.Claim(d, row, word), word
		if field := verify.Changed(row.Kind, word); field != "" {
			named[field] = true
			name = code(field)
			if slices.Contains(can.Change, field) && can.Beside != grapnel.None {
				yes = append(yes, name+" with "+can.Beside.String())
				continue
			}
		}
		name += when(seenRow(seen, row.Native, word) != nil, " ✓")
		switch claim {
		case verify.Native:
			yes = append(yes, name)
		case verify.AsBlock:
			block = append(block, name)
		case verify.AsHalt:
			block = append(block, name+" (a halt)")
		}
	}
	for _, field := range can.Change {
		if !named[field] {
			yes = append(yes, code(field)+when(can.Beside != grapnel.None, " with "+can.Beside.String()))
		}
	}
	if row.Kind.Native() && row.Contract == nil && can.Message {
		yes = append(yes, "message")
	}
	return list(yes...), list(block...)
}

func contractOf(row *dialect.EventRow) *grapnel.Contract {
	if row.Contract != nil {
		return row.Contract
	}
	if c, ok := grapnel.ContractOf(row.Kind); ok {
		return &c
	}
	return &grapnel.Contract{Kind: row.Kind}
}

func installed(row *dialect.EventRow) string {
	added, budget := "", ""
	switch {
	case row.Install:
	case row.Never:
		added = "never: " + row.Why
	default:
		added = "if a policy listens"
	}
	if row.Budget > 0 {
		budget = fmt.Sprintf("all hooks have %v", row.Budget.Round(100*time.Millisecond))
	}
	return list(added, budget)
}

// agentTools lists the tools of an agent. Tools that differ only in their names share a row.
func agentTools(d *dialect.Dialect) string {
	var rows [][]string
	for _, tool := range d.Tools {
		var facts []string
		for _, fact := range tool.Facts {
			field := strings.TrimPrefix(string(fact.Field), "tool.")
			if fact.Use != "" {
				field = map[grapnel.Use]string{grapnel.UseRead: "reads", grapnel.UseWrite: "writes"}[fact.Use]
			}
			facts = append(facts, field+" "+code(strings.ReplaceAll(strings.TrimPrefix(fact.At, "/"), "/", ".")))
		}
		cells := []string{code(tool.Native), string(tool.Class), list(facts...)}
		same := slices.IndexFunc(rows, func(other []string) bool { return slices.Equal(other[1:], cells[1:]) })
		if same >= 0 {
			rows[same][0] += ", " + cells[0]
			continue
		}
		rows = append(rows, cells)
	}
	return table([]string{"tools", "class", "input members that rules read"}, rows)
}
