package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

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
				installed = slices.Contains(files, place.Policy)
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
	data, err := os.ReadFile(file)
	if err != nil {
		e := &policy.Error{File: file, Msg: err.Error()}
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			e.Msg = at.Err.Error()
		}
		if errors.Is(err, fs.ErrNotExist) && file == place.Policy {
			e.Hint = "\"grapnel init\" writes one"
		}
		return []finding{{e, "error"}}, 0
	}
	p, errs := policy.Parse(file, data)
	for _, e := range errs {
		found = append(found, finding{e, "error"})
	}
	if p == nil {
		return found, 0
	}
	if installed {
		found = append(found, uninstalled(file, p, place)...)
	}
	return found, len(p.Hooks)
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
					sent[row.Kind] = true
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

// installs lists the recorded installations of a place.
func installs(place answer.Place) []record.Record {
	records, err := record.List(place.Installs())
	if err != nil {
		return nil
	}
	return records
}
