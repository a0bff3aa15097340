package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/dialect"
)

// setupDialects sets up the same shell call in the words of each agent, with 50 rules and
// one Record.
func setupDialects(ctx context.Context, s *setup) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	floor, err := s.appending()
	if err != nil {
		return err
	}
	row := s.paths[0].target
	s.paths = nil
	for _, d := range dialect.All() {
		p := &path{target: row, reference: static, floor: floor, detail: d.Name, screened: true}
		p.subject, p.err = s.agentHook(ctx, d)
		s.paths = append(s.paths, p)
	}
	return nil
}

// agentHook describes grapnel-hook as an agent's settings would start it, and makes sure
// that it judges the agent's events and writes Records of them.
func (s *setup) agentHook(ctx context.Context, d *dialect.Dialect) (*series, error) {
	root, err := s.root("dialect-"+d.Name, policyFile(50, watchThis))
	if err != nil {
		return nil, err
	}
	p, err := s.agentProgram(d, root, shellLine)
	if err != nil {
		return nil, err
	}
	if out, err := p.output(ctx); err != nil || strings.Contains(out, canaryReason) {
		return nil, errors.Join(fmt.Errorf("%s: no rule applies to this event, but it answers %q", d.Name, out), err)
	}
	canary, err := s.agentProgram(d, root, canaryCommand)
	if err != nil {
		return nil, err
	}
	// Some agents get the reason by exit code and stderr, which is part of the error.
	if out, err := canary.output(ctx); !strings.Contains(fmt.Sprint(out, err), canaryReason) {
		return nil, errors.Join(fmt.Errorf("%s: the policy is not in force: it answers %q", d.Name, out), err)
	}
	return p.wall(), recorded(served.State(root))
}

// agentProgram is grapnel-hook with an event about a shell line as the agent sends it.
func (b *bench) agentProgram(d *dialect.Dialect, root, line string) (*program, error) {
	ev := shellEvent(line)
	ev.Session.CWD, ev.Tool.ID = b.project, "toolu_"+idMark
	data, err := d.WriteEvent(ev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	got := dialect.Receive(d, dialect.Input{Payload: data})
	if got.Err != nil || got.Event.Kind != grapnel.ToolBefore || !slices.Equal(got.Event.Tool.Commands, []string{line}) {
		return nil, errors.Join(fmt.Errorf("%s does not read its own %s", d.Name, data), got.Err)
	}
	argv := []string{b.exe("grapnel-hook")}
	if d.Setup() == nil || !d.Setup().Anonymous {
		argv = append(argv, d.Name)
		if row := got.Row(); row != nil && d.Setup() != nil {
			argv = append(argv, row.Native)
		}
	}
	p, err := b.program("grapnel-hook "+d.Name, append(argv, "--root", root), "", nil)
	if err != nil {
		return nil, err
	}
	mark := idMark
	if !bytes.Contains(data, []byte(mark)) {
		mark = "" // this agent does not number its calls
	}
	p.payload, err = newPayload(data, mark, b.dir)
	return p, err
}
