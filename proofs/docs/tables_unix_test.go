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

// eventTable lists the events, and below them the events with another effect of a failure or of
// plain stdout.
func eventTable() string {
	var rows [][]string
	var open []string
	stdout := map[string][]string{}
	for _, c := range grapnel.Contracts() {
		rows = append(rows, []string{code(c.Kind), moments[c.Kind], blockMeans(&c), permits(&c), senders(c.Kind)})
		if c.FailOpen {
			open = append(open, code(c.Kind))
		}
		if c.Stdout != "" {
			stdout[c.Stdout] = append(stdout[c.Stdout], code(c.Kind))
		}
	}
	var b strings.Builder
	b.WriteString(table([]string{"event", "when", "a block", "may be changed or added", "sent by"}, rows))
	fmt.Fprintf(&b, "\n**A failed hook** stops nothing at %s. At the other events its `on_error` decides.\n", list(open...))
	b.WriteString("\n**Output of a program that is not JSON** is ")
	for i, name := range slices.Sorted(maps.Keys(stdout)) {
		b.WriteString(when(i > 0, "; ") + name + " at " + list(stdout[name]...))
	}
	b.WriteString(". At the other events Grapnel ignores it.\n")
	return b.String()
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
		return "prevents it"
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

// settingsTable lists the files with which an agent runs grapnel-hook.
func settingsTable(t *testing.T, a *install.Agent) string {
	t.Helper()
	setup := a.Setup
	file := func(scope install.Scope, env map[string]string) string {
		base := map[install.Scope]string{install.User: "/HOME", install.Project: "/PROJECT", install.Managed: "/"}[scope]
		name, err := a.Settings(scope, base, func(name string) string { return env[name] })
		if errors.Is(err, install.ErrUsage) {
			return ""
		} else if err != nil {
			t.Fatal(err)
		}
		return code(strings.NewReplacer("/HOME/", "~/", "/PROJECT/", "", "/MOVED", "$"+setup.MovedBy).Replace(name))
	}
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
	for _, scope := range []install.Scope{install.User, install.Project, install.Managed} {
		name := file(scope, nil)
		if moved := setup.MovedBy; scope == install.User && moved != "" {
			name += ", or " + file(scope, map[string]string{moved: "/MOVED"})
		}
		if name != "" {
			rows = append(rows, []string{code(scope), name})
		}
	}
	text := table([]string{"`--scope`", place}, rows)
	var notes []string
	if len(a.Aliases) > 0 {
		notes = append(notes, "Other name on command lines: "+list(codes(a.Aliases)...)+".")
	}
	if plugin || strings.Contains(setup.Entry, "$closed") {
		var names []string
		for _, ev := range a.Events {
			if ev.Closed {
				names = append(names, code(ev.Native))
			}
		}
		notes = append(notes, "`--fail-closed` works "+when(setup.ClosedSince != "", "from "+setup.ClosedSince+" on, ")+"at "+list(names...)+".")
	}
	if len(notes) > 0 {
		text += "\n" + strings.Join(notes, " ") + "\n"
	}
	return text
}

// setupTable compares the properties of the installations.
func setupTable(agents []*dialect.Dialect) string {
	var hour, minute, comments, closed []string
	for _, d := range agents {
		setup := d.Setup()
		if setup == nil {
			continue
		}
		if setup.AskTimeout > 0 {
			hour = append(hour, d.Title)
		} else if setup.Unit != 0 {
			minute = append(minute, d.Title)
		}
		shared := setup.Shape != dialect.ShapeFiles && setup.Shape != dialect.ShapePlugin && !setup.Own || len(setup.Edits) > 0
		if shared && !setup.Comments {
			comments = append(comments, d.Title)
		}
		if setup.Shape == dialect.ShapePlugin || strings.Contains(setup.Entry, "$closed") {
			closed = append(closed, d.Title)
		}
	}
	return table([]string{"property", "agents"}, [][]string{
		{fmt.Sprintf("wait %.0f s for a reply", install.DefaultTimeout.Seconds()), list(minute...)},
		{"the same, but an hour where a person can decide; [Grapnel itself has 55 s](run-a-program.md#time-limits)", list(hour...)},
		{"accept no comments in their settings: `install` refuses such a file", list(comments...)},
		{"[`--fail-closed`](install.md#when-grapnel-itself-fails) works", list(closed...)},
	})
}

func codes(words []string) []string {
	var list []string
	for _, word := range words {
		list = append(list, code(word))
	}
	return list
}

// agentEvents lists the events of an agent with the parts of a verdict that it supports. A part that
// a run checked has a ✓; so has an event that it saw without such a part. Events that differ only in their names share a row. Events that hooks can
// only observe under their native names, and what is special about an installation, are below the
// table.
func agentEvents(d *dialect.Dialect, seen *verify.Report) string {
	var rows [][]string
	var observed, native, listened, never []string
	budgets := map[time.Duration][]string{}
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
		if row.Budget > 0 {
			budgets[row.Budget] = append(budgets[row.Budget], name)
		}
		supported := parts(d, row, seen)
		switch {
		case row.Never:
			never = append(never, name+": "+row.Why)
			continue
		case kinds == "" && supported == "" && row.Install:
			observed = append(observed, name)
			continue
		case kinds == "" && supported == "":
			native = append(native, name)
			continue
		case !row.Install:
			listened = append(listened, name)
		}
		if r := seenRow(seen, row.Native, "fires"); r != nil && r.Seen == "yes" && !strings.Contains(supported, "✓") {
			name += " ✓"
		}
		cells := []string{name, kinds, supported}
		same := slices.IndexFunc(rows, func(other []string) bool { return slices.Equal(other[1:], cells[1:]) })
		if same >= 0 {
			rows[same][0] += ", " + name
			continue
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	b.WriteString(table([]string{"[event](../agents.md#the-pages-of-the-agents)", "in a policy", "supported"}, rows))
	note := func(begin string, words []string) {
		if len(words) > 0 {
			fmt.Fprintf(&b, "\n%s: %s.\n", begin, list(words...))
		}
	}
	note("Installed only if a policy listens", listened)
	note("Only observed, as `native."+d.Name+".EVENT`", observed)
	note("Only observed, as `native."+d.Name+".EVENT`, if a policy listens", native)
	note("Never installed", never)
	var limits []string
	for _, budget := range slices.Backward(slices.Sorted(maps.Keys(budgets))) {
		limits = append(limits, fmt.Sprintf("%v at %s", budget.Round(100*time.Millisecond), list(budgets[budget]...)))
	}
	if len(limits) > 0 {
		fmt.Fprintf(&b, "\nAll hooks together have %s.\n", strings.Join(limits, "; "))
	}
	return b.String()
}

// parts lists the parts of a verdict that an agent supports at an event.
func parts(d *dialect.Dialect, row *dialect.EventRow, seen *verify.Report) string {
	can := row.Permits()
	var yes []string
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
		if claim == verify.Native {
			yes = append(yes, name+when(seenRow(seen, row.Native, word) != nil, " ✓"))
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
	return list(yes...)
}

// agentTools lists the tools of an agent by their classes, and the members of their input that rules
// read. It leaves out tools that rules know only by their names.
func agentTools(d *dialect.Dialect) string {
	var rows [][]string
	classes := map[grapnel.Class][][2]string{} // names, facts
	for _, tool := range d.Tools {
		var facts []string
		for _, fact := range tool.Facts {
			field := strings.TrimPrefix(string(fact.Field), "tool.")
			if fact.Use != "" {
				field = map[grapnel.Use]string{grapnel.UseRead: "reads", grapnel.UseWrite: "writes"}[fact.Use]
			}
			facts = append(facts, field+" "+code(strings.ReplaceAll(strings.TrimPrefix(fact.At, "/"), "/", ".")))
		}
		if tool.Class == grapnel.ClassOther && len(facts) == 0 {
			continue
		}
		of := classes[tool.Class]
		if of == nil {
			rows = append(rows, []string{string(tool.Class), ""})
		}
		name, members := code(tool.Native), list(facts...)
		if same := slices.IndexFunc(of, func(other [2]string) bool { return other[1] == members }); same >= 0 {
			of[same][0] += ", " + name
		} else {
			of = append(of, [2]string{name, members})
		}
		classes[tool.Class] = of
	}
	for _, row := range rows {
		for i, of := range classes[grapnel.Class(row[0])] {
			row[1] += when(i > 0, "; ") + of[0] + when(of[1] != "", ": "+of[1])
		}
	}
	return table([]string{"class", "tools, and the input members that rules read"}, rows)
}
