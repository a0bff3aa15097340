//go:build unix

package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/dialect"
)

// TestAgents compares agents.md and the page of each agent with the tables of the dialects and with
// the verified behavior of the real agents.
func TestAgents(t *testing.T) {
	t.Parallel()
	var agents, verdicts [][]string
	var subagents []string
	for _, d := range dialect.All() {
		if d.Name == dialect.Plain().Name {
			continue
		}
		seen := verified(t, d)
		title := fmt.Sprintf("[%s](agents/%s.md)", d.Title, d.Name)
		agents = append(agents, []string{title, code(d.Name), seenIn(seen)})
		if guardsSeen(t, seen) {
			subagents = append(subagents, d.Title)
		}
		if can := support(d, seen, grapnel.ToolBefore, "block"); !strings.HasPrefix(can, "yes") {
			t.Errorf("agents.md says that every agent can block a call; %s: %s", d.Title, can)
		}
		row := []string{title}
		for _, c := range compared {
			row = append(row, support(d, seen, c.kind, c.word))
		}
		verdicts = append(verdicts, row)
		parts := map[string]string{"events": agentEvents(d, seen), "tools": agentTools(d)}
		if setup := d.Setup(); setup != nil { // the others run the hooks of another agent
			parts["settings"] = settingsTable(t, &install.Agent{Dialect: d, Setup: setup})
			if len(setup.Unseen) > 0 || setup.Undone != "" {
				parts["unseen"] = unseen(setup)
			}
		}
		checkParts(t, filepath.Join("agents", d.Name+".md"), parts)
	}
	for file, words := range map[string][4]string{
		"README.md":       {"agents", "tested", "driven", "from documentation"},
		"README.zh-CN.md": {"智能体", "测试方式", "实际运行", "依据文档"},
	} {
		checkParts(t, filepath.Join("..", file), map[string]string{"driven": drivenTable(t, words)})
	}
	head := []string{"agent"}
	for _, c := range compared {
		head = append(head, c.title)
	}
	checkParts(t, "agents.md", map[string]string{
		"agents": table([]string{"agent", "name", "tested version"}, agents) + "\nIn " + list(subagents...) +
			", the tests also saw that guards stop the calls of sub-agents.\n",
		"matrix": table(head, verdicts),
		"setup":  setupTable(dialect.All()),
	})
}

// compared lists the columns of the table that compares the agents.
var compared = []struct {
	title, word string
	kind        grapnel.Kind
}{
	{"ask", "ask", grapnel.ToolBefore},
	{"allow", "allow", grapnel.ToolBefore},
	{"rewrite a call", "rewrite", grapnel.ToolBefore},
	{"block a result", "block", grapnel.ToolAfter},
	{"replace a result", "replace", grapnel.ToolAfter},
	{"block a prompt", "block", grapnel.PromptBefore},
	{"rewrite a prompt", "rewrite", grapnel.PromptBefore},
	{"context at a prompt", "context", grapnel.PromptBefore},
	{"context at the start", "context", grapnel.SessionStart},
	{"block a stop", "block", grapnel.AgentAfter},
}

// support returns how an agent applies a word of a verdict at its first installed event of a kind.
func support(d *dialect.Dialect, seen *verify.Report, kind grapnel.Kind, word string) string {
	i := slices.IndexFunc(d.Events, func(row dialect.EventRow) bool { return row.Kind == kind && row.Install })
	if i < 0 {
		return "-"
	}
	row := &d.Events[i]
	short := map[string]string{verify.Native: "yes", verify.AsBlock: "block", verify.AsHalt: "halt", verify.Not: "no"}
	return short[verify.Claim(d, row, word)] + when(seenRow(seen, row.Native, word) != nil, " ✓")
}

// seenRow returns what a verification run observed; nil if it did not check this.
func seenRow(seen *verify.Report, native, what string) *verify.Row {
	if seen == nil {
		return nil
	}
	i := slices.IndexFunc(seen.Rows, func(r verify.Row) bool { return r.Event == native && r.What == what })
	if i < 0 {
		return nil
	}
	return &seen.Rows[i]
}

// guardsSeen requires that a run saw the behavior of guards that agents.md describes for all
// agents, and reports whether it also saw it in a sub-agent.
func guardsSeen(t *testing.T, seen *verify.Report) bool {
	t.Helper()
	if seen == nil {
		return false
	}
	const ran, stopped = "the call happened", "the call did not happen"
	want := map[string]string{
		"guard that crashes, on_error open": ran, "guard that crashes, on_error closed": stopped,
		"guard that hangs, on_error open": ran, "guard that hangs, on_error closed": stopped,
		"guard of a path that is written by a detour": stopped,
		"guard of one of two calls at once":           stopped, "the other of two calls at once": ran,
		"call that no hook has an opinion on": ran,
	}
	inSubagent := map[string]string{"guard of a call of a sub-agent": stopped, "other call of a sub-agent": ran}
	found, subagent := 0, false
	for _, r := range seen.Rows {
		expected, always := want[r.What]
		if always {
			found++
		} else if expected = inSubagent[r.What]; expected != "" {
			subagent = true
		}
		if expected != "" && r.Seen != expected {
			t.Errorf("%s: %s: %s, and agents.md says: %s", seen.Agent, r.What, r.Seen, expected)
		}
	}
	if found != len(want) {
		t.Errorf("%s: %d checks of guards, and agents.md describes %d", seen.Agent, found, len(want))
	}
	return subagent
}

// unseen lists the actions that no hook sees, and how other hooks can undo a decision.
func unseen(setup *dialect.Setup) string {
	var b strings.Builder
	if len(setup.Unseen) > 0 {
		b.WriteString("Hooks do not see:\n\n")
		for _, fact := range setup.Unseen {
			fmt.Fprintf(&b, "- %s\n", fact)
		}
	}
	if setup.Undone != "" {
		fmt.Fprintf(&b, "%sOther hooks: %s.\n", when(b.Len() > 0, "\n"), setup.Undone)
	}
	return b.String()
}

// drivenTable lists the agents that the tests ran, and the others. words are its texts.
func drivenTable(t *testing.T, words [4]string) string {
	t.Helper()
	var driven, others []string
	for _, d := range dialect.All() {
		switch {
		case d.Name == dialect.Plain().Name:
		case verified(t, d) != nil:
			driven = append(driven, d.Title)
		default:
			others = append(others, d.Title)
		}
	}
	slices.Sort(driven)
	slices.Sort(others)
	return table([]string{words[0], words[1]}, [][]string{{strings.Join(driven, ", "), words[2]}, {strings.Join(others, ", "), words[3]}})
}

// verified reads the verification report of an agent; nil for an agent that cannot run.
func verified(t *testing.T, d *dialect.Dialect) *verify.Report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("verified", d.Name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var report verify.Report
	if err := errors.Join(err, json.Unmarshal(data, &report)); err != nil {
		t.Fatalf("what was seen of %s: %v", d.Name, err)
	}
	if !report.OK() || report.Agent != d.Name {
		t.Errorf("verified/%s.json is of a run that did not end well, or of %s", d.Name, report.Agent)
	}
	return &report
}

func seenIn(seen *verify.Report) string {
	if seen == nil {
		return "from documentation"
	}
	return fmt.Sprintf("%s, %s", seen.Version, seen.Time.Format("2006-01-02"))
}

// TestDowngrades checks the rule in agents.md for the parts of a verdict that an agent does not
// support, with its exceptions.
func TestDowngrades(t *testing.T) {
	t.Parallel()
	// On the left are the events with an exception; on the right is the part that is dropped, or the
	// block that becomes a halt.
	exceptions := map[string]string{
		"factory-droid PostToolUse": "replace", "cline PostToolUse": "replace",
		"gemini-cli AfterModel": "block", "antigravity PostInvocation": "block",
	}
	found := map[string]bool{}
	for _, d := range dialect.All() {
		for i := range d.Events {
			row := &d.Events[i]
			stop := row.Kind == grapnel.AgentAfter || row.Kind == grapnel.SubagentAfter
			block := verify.Claim(d, row, "block") == verify.Native
			for _, word := range verify.Words() {
				claim, want := verify.Claim(d, row, word), verify.Not
				switch {
				case claim == "" || claim == verify.Native:
					continue
				case row.Kind == grapnel.ToolFailed && word == "replace" || stop && word == "halt":
				case slices.Contains([]string{"block", "allow", "context", "message"}, word):
				case block:
					want = verify.AsBlock
				}
				if name := d.Name + " " + row.Native; claim != want && exceptions[name] == word {
					found[name] = true
				} else if claim != want {
					t.Errorf("%s: %s: %s, and agents.md says: %s", name, word, claim, want)
				}
			}
		}
	}
	if len(found) != len(exceptions) {
		t.Errorf("agents.md lists %d exceptions, and only these exist: %v", len(exceptions), found)
	}
}
