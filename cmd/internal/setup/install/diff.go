package install

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// Unified returns the difference of two versions of a file as a unified diff with three lines of
// context; nil means that the file does not exist. If they are equal, it returns "".
func Unified(name string, before, after []byte) string {
	oldName, newName := name, name
	if before == nil {
		oldName = "/dev/null"
	}
	if after == nil {
		newName = "/dev/null"
	}
	if oldName != newName && len(before)+len(after) == 0 {
		return fmt.Sprintf("--- %s\n+++ %s\n", oldName, newName)
	}
	_, lines, _ := strings.Cut(string(diff.Diff(oldName, before, newName, after)), "\n") // the first line is a "diff" command line
	return lines
}

// maxBriefLine is the maximum number of bytes of a line in a Brief diff. Some settings are one line.
const maxBriefLine = 400

// Brief shortens a unified diff for people. Added or removed parts that differ only in the name of
// their event are shown once, with a line that lists the other events. Long lines are cut.
func Brief(diff string, events []string) string {
	lines := strings.SplitAfter(diff, "\n")
	var b strings.Builder
	for at := 0; at < len(lines); {
		parts := partsAt(lines[at:], events)
		if len(parts) == 0 {
			b.WriteString(cutLine(lines[at]))
			at++
			continue
		}
		like := map[string][]string{} // events by the form of their part
		for _, p := range parts {
			like[p.form] = append(like[p.form], p.event)
		}
		for _, p := range parts {
			at += len(p.lines)
			if same := like[p.form]; same[0] == p.event {
				for _, line := range p.lines {
					b.WriteString(cutLine(line))
				}
				if len(same) > 1 {
					fmt.Fprintf(&b, "%s… and %s like it: %s\n", p.margin(), printable.Count(len(same)-1, "event"), strings.Join(same[1:], ", "))
				}
			}
		}
	}
	return b.String()
}

func cutLine(line string) string {
	if len(line) <= maxBriefLine {
		return line
	}
	return fmt.Sprintf("%s (%s bytes)\n", wording.Shorten(line, maxBriefLine), printable.Number(len(line)-1))
}

// A part is the lines of a diff that add or remove one event.
type part struct {
	event string
	lines []string
	form  string // the lines without the name of the event
}

// margin returns the sign and the indentation of the first line.
func (p *part) margin() string {
	return p.lines[0][:1+len(p.lines[0][1:])-len(strings.TrimLeft(p.lines[0][1:], " \t"))]
}

// partsAt returns the parts that follow each other from the first line on. All have the same sign
// and indentation.
func partsAt(lines, events []string) []part {
	var parts []part
	var margin string
	for i, line := range lines {
		if event := eventAt(line, events); event != "" {
			p := part{event: event, lines: lines[i : i+1]}
			if m := p.margin(); len(parts) == 0 || m == margin {
				parts, margin = append(parts, p), m
				continue
			}
		}
		// The lines of a part are deeper than its first line, up to the closing bracket.
		rest, inside := strings.CutPrefix(line, margin)
		if len(parts) == 0 || !inside || !strings.ContainsAny(rest[:min(len(rest), 1)], " \t]}") {
			break
		}
		last := &parts[len(parts)-1]
		last.lines = lines[i-len(last.lines) : i+1]
	}
	for i := range parts {
		p := &parts[i]
		p.form = strings.ReplaceAll(strings.TrimRight(strings.Join(p.lines, ""), ",\n"), p.event, "\x00")
	}
	return parts
}

// eventAt returns the event whose member begins at an added or removed line, or "".
func eventAt(line string, events []string) string {
	if !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "-") {
		return ""
	}
	name, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimLeft(line[1:], " \t"), `"`), `"`)
	if !ok || !slices.Contains(events, name) {
		return ""
	}
	return name
}
