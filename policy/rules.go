package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// Rules returns the hooks of a policy that is a part of a program. text is the list of `hooks:` of a
// policy file, in YAML:
//
//	rules, err := policy.Rules(`[{name: no-delete, on: tool.before, match: {command: rm -rf}, block: Move the files to ./trash.}]`)
//
// Rules match as in a policy file: shell lines by the commands in them, paths, addresses, secrets. A
// hook that needs more than its event (run, worker, http, notify, builtin, after) is an error, and
// package load is for such hooks. A limit counts in memory, for these Specs only. The error has a line for
// each mistake, with its position in text.
func Rules(text string) ([]grapnel.Spec, error) {
	const head, lines = "version: 1\nhooks:\n", 2
	indent := ""
	if list := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(list, "[") { // it must be indented, and not by tabs
		indent, text = " ", strings.ReplaceAll(strings.TrimSuffix(text, list), "\t", " ")+list
	}
	p, errs := Parse("rules", []byte(head+indent+text))
	var all []error
	for _, e := range errs {
		if e.Line == lines+1 {
			e.Col = max(1, e.Col-len(indent))
		}
		e.Line = max(1, e.Line-lines)
		all = append(all, e)
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if h.Program() != nil || h.HTTP != nil || h.Builtin != nil || h.After != nil {
			all = append(all, fmt.Errorf("rules:%d: hook %q needs more than its event: put it into a policy file, and load the file with load.Policies", h.Line-lines, h.Name))
		}
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	if len(p.Hooks) == 0 {
		return nil, errors.New("there are no rules in the text")
	}
	return Build(p, grapnel.Source{}, nil)
}
