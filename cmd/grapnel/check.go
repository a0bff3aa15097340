package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/install/record"
	"github.com/grapnel-dev/grapnel/policy"
)

// finding is one line of "grapnel check".
type finding struct {
	*policy.Error
	Severity string `json:"severity"` // error, warning
}

func newCheck(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "check [FILE...]",
		Short: "Find mistakes in policies",
		Long:  "Reads policy files, the user's when none is named, and says what is wrong, with\nline and column. It also names hooks on events that no agent is set up to send.\nExit code 0: no errors.",
		RunE: func(_ *cobra.Command, files []string) error {
			place, err := c.place()
			if err != nil {
				return err
			}
			installed := true
			if len(files) == 0 {
				files = []string{place.Policy}
			} else {
				installed = slices.ContainsFunc(files, func(file string) bool {
					abs, err := filepath.Abs(file)
					return err == nil && abs == place.Policy
				})
			}
			findings := []finding{}
			bad := false
			for _, file := range files {
				found, hooks := checkFile(file, place, installed)
				for _, f := range found {
					bad = bad || f.Severity == "error"
				}
				findings = append(findings, found...)
				if !c.json {
					for _, f := range found {
						color := red
						if f.Severity == "warning" {
							color = yellow
						}
						fmt.Fprintln(c.out, c.located(f, color))
					}
					if !slices.ContainsFunc(found, func(f finding) bool { return f.Severity == "error" }) {
						fmt.Fprintf(c.out, "%s: %s, %d hooks\n", file, c.paint(green, "good"), hooks)
					}
				}
			}
			if c.json {
				if err := c.printJSON(findings); err != nil {
					return err
				}
			}
			if bad {
				return errFailed
			}
			return nil
		},
	})
}

// located is FILE:LINE:COL: severity: message, as editors read it.
func (c *console) located(f finding, color string) string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Col)
	}
	text := fmt.Sprintf("%s: %s: %s", at, c.paint(color, f.Severity), f.Msg)
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

func checkFile(file string, place answer.Place, installed bool) (found []finding, hooks int) {
	p, errs := policy.Read(file)
	for _, e := range errs {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && file == place.Policy {
			e.Hint = "\"grapnel init\" writes one"
		}
		found = append(found, finding{e, "error"})
	}
	if p == nil {
		return found, 0
	}
	found = append(found, suspicious(file, p)...)
	if installed {
		found = append(found, uninstalled(file, p, place)...)
	}
	return found, len(p.Hooks)
}

// suspicious names what is valid and hardly what is meant.
func suspicious(file string, p *policy.Policy) []finding {
	var found []finding
	warn := func(h *policy.Hook, hint, format string, args ...any) {
		found = append(found, finding{&policy.Error{File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: ", h.Name) + fmt.Sprintf(format, args...), Hint: hint}, "warning"})
	}
	unknown := false
	var guard *policy.Hook // of commands
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if h.Match == nil {
			continue
		}
		for _, name := range h.Match.Tool {
			if near := misspelt(name); near != "" {
				warn(h, fmt.Sprintf("did you mean %q?", near), "no agent has a tool %q", name)
			}
		}
		unknown = unknown || len(h.Match.Shell) > 0
		if len(h.Match.Command) > 0 && (h.Decide == "block" || h.Decide == "ask") && guard == nil {
			guard = h
		}
	}
	if guard != nil && !unknown {
		warn(guard, "add a hook with `match: {shell: unknown}` that asks or blocks", "commands are guarded, and a line that hides what it runs ($x, a pipe into sh) is not")
	}
	return found
}

// misspelt returns the class or tool whose name a word is in another letter case.
func misspelt(word string) string {
	near := ""
	for _, class := range grapnel.Classes {
		if word == string(class) {
			return ""
		}
		if strings.EqualFold(word, string(class)) {
			near = string(class)
		}
	}
	for _, d := range dialect.Dialects {
		for _, t := range d.Tools {
			if word == t.Native {
				return ""
			}
			if near == "" && strings.EqualFold(word, t.Native) {
				near = t.Native
			}
		}
	}
	return near
}

// uninstalled names the hooks on events that none of the installed agents sends.
func uninstalled(file string, p *policy.Policy, place answer.Place) []finding {
	installs := installs(place)
	if len(installs) == 0 {
		return nil
	}
	sent := map[grapnel.Kind]bool{}
	for _, rec := range installs {
		if d, ok := dialect.Find(rec.Agent); ok {
			for _, name := range rec.Events {
				if row := d.Row(name); row != nil {
					sent[row.Kind], sent[row.Failed] = true, true
				}
			}
		}
	}
	var found []finding
	for _, h := range p.Hooks {
		for _, kind := range h.On {
			if !sent[kind] && sendable(kind) {
				found = append(found, finding{&policy.Error{
					File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q listens to %s, which no installed agent sends", h.Name, kind),
					Hint: "run \"grapnel install\" again",
				}, "warning"})
			}
		}
	}
	return found
}

// sendable reports whether any agent has this event at all.
func sendable(kind grapnel.Kind) bool {
	for _, d := range dialect.Dialects {
		if slices.ContainsFunc(d.Events, func(row dialect.EventRow) bool { return row.Kind == kind }) {
			return true
		}
	}
	return false
}

// installs lists the recorded installations of a place that can be read; status
// names the others.
func installs(place answer.Place) []record.Record {
	records, _ := record.List(place.Installs())
	return records
}
