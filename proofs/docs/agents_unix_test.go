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

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/dialect"
)

// TestAgents compares agents.md with the tables of the dialects and with the verified behavior of
// the real agents.
func TestAgents(t *testing.T) {
	t.Parallel()
	var agents [][]string
	var matrix strings.Builder
	for _, d := range dialect.All() {
		if d.Name == dialect.Plain().Name {
			continue
		}
		seen := verified(t, d)
		agents = append(agents, []string{
			fmt.Sprintf("[%s](agents/%s.md)", d.Title, d.Name), code(d.Name), kindOfHooks(d), fmt.Sprint(len(d.Events)), seenIn(seen),
		})
		fmt.Fprintf(&matrix, "### %s\n\n%s\n", d.Title, agentMatrix(d, seen))
	}
	for file, words := range map[string][4]string{
		"README.md":       {"agents", "tested", "driven", "from documentation"},
		"README.zh-CN.md": {"智能体", "测试方式", "实际运行", "依据文档"},
	} {
		checkParts(t, filepath.Join("..", file), map[string]string{"driven": drivenTable(t, words)})
	}
	checkParts(t, "agents.md", map[string]string{
		"agents": table([]string{"agent", "name", "type of hooks", "events", "seen live"}, agents),
		"matrix": strings.TrimSuffix(matrix.String(), "\n"),
	})
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
		return "no: from documentation"
	}
	return fmt.Sprintf("%s, %s", seen.Version, seen.Time.Format("2006-01-02"))
}

// kindOfHooks describes in a few words the hooks that an agent runs.
func kindOfHooks(d *dialect.Dialect) string {
	switch {
	case d.Setup() == nil:
		return ""
	case d.Setup().Shape == dialect.ShapePlugin:
		return "plugins in JavaScript; Grapnel brings the shim"
	case d.Setup().Shape == dialect.ShapeFiles:
		return "a program per event"
	}
	return "commands in " + code(d.Setup().User)
}

// agentMatrix lists the events of an agent and the parts of a verdict that it supports at each.
func agentMatrix(d *dialect.Dialect, seen *verify.Report) string {
	find := func(native, what string) *verify.Row {
		if seen == nil {
			return nil
		}
		i := slices.IndexFunc(seen.Rows, func(r verify.Row) bool { return r.Event == native && r.What == what })
		if i < 0 {
			return nil
		}
		return &seen.Rows[i]
	}
	head := append([]string{"event", "is", "fires"}, verify.Words()...)
	used := make([]bool, len(head))
	var rows [][]string
	for i := range d.Events {
		row := &d.Events[i]
		cells := []string{code(row.Native), code(string(row.Kind)), ""}
		if row.Kind.Native() {
			cells[1] = ""
		}
		if r := find(row.Native, "fires"); r != nil && r.Seen == "yes" {
			cells[2] = "✓"
		}
		for _, word := range verify.Words() {
			cell := verify.Claim(d, row, word)
			if cell == verify.Not {
				cell = "no"
			}
			if find(row.Native, word) != nil {
				cell += " ✓"
			}
			cells = append(cells, cell)
		}
		for i, cell := range cells {
			used[i] = used[i] || cell != ""
		}
		rows = append(rows, cells)
	}
	nonEmpty := func(cells []string) []string { // without empty columns
		var kept []string
		for i, cell := range cells {
			if used[i] {
				kept = append(kept, cell)
			}
		}
		return kept
	}
	head = nonEmpty(head)
	for i := range rows {
		rows[i] = nonEmpty(rows[i])
	}
	var b strings.Builder
	b.WriteString(table(head, rows))
	if seen != nil {
		var guards []string
		for _, r := range seen.Rows {
			if r.Claim == "" && r.What != "fires" {
				guards = append(guards, fmt.Sprintf("%s: %s", r.What, r.Seen))
			}
		}
		fmt.Fprintf(&b, "\nSeen live in %s %s on %s, %s. At %s, %s.\n", d.Title, seen.Version, seen.System, seen.Time.Format("2006-01-02"), code(toolEvent(seen)), strings.Join(guards, "; "))
	} else {
		b.WriteString("\nNot run here: the rows are from its documentation and from payloads.\n")
	}
	if d.Setup() != nil {
		for _, fact := range append(slices.Clone(d.Setup().Unseen), d.Setup().Undone) {
			if fact != "" {
				fmt.Fprintf(&b, "\n- %s", sentence(fact))
			}
		}
		if len(d.Setup().Unseen) > 0 || d.Setup().Undone != "" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// toolEvent returns the event at which the report checked the guards.
func toolEvent(seen *verify.Report) string {
	for _, r := range seen.Rows {
		if strings.HasPrefix(r.What, "guard") {
			return r.Event
		}
	}
	return ""
}

// sentence adds a capital letter at the beginning and a full stop at the end.
func sentence(s string) string {
	return strings.TrimSuffix(strings.ToUpper(s[:1])+s[1:], ".") + "."
}
