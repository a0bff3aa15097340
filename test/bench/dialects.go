package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// screening is how often the programs of every dialect run. Then those that look worst
// run as often as any other, so that a row that is worst has not been unlucky.
const screening = 30

// dialectGroups returns the rows about the same call of a shell as each agent tells of it:
// one group without a policy, and one with 50 rules.
func (b *benchmark) dialectGroups(ctx context.Context, floor *program) ([]group, error) {
	groups := []group{{screening: screening}, {screening: screening}}
	base := []*side{floor.wallSide(), floor.wallSide()} // each in its own moments
	for _, d := range dialect.Dialects {
		for i, with := range []struct {
			name, policy string
			budget       float64
		}{
			{"no policy", "", noPolicyBudget},
			{"50 rules, one Record line", policyFile(50, watchThis), rulesBudget},
		} {
			p, err := b.told(ctx, d, filepath.Join(b.dir, fmt.Sprintf("%s-%d", d.Name, i)), with.policy)
			if err != nil {
				return nil, err
			}
			groups[i].contests = append(groups[i].contests, &contest{
				name: with.name + ": " + d.Name, subject: p.wallSide(), reference: base[i], budget: with.budget, show: milliseconds,
			})
		}
	}
	return groups, nil
}

// told describes grapnel-hook as an agent's settings would start it, at a call of a shell
// in that agent's words, and makes sure that it judges such a call and keeps a Record.
func (b *benchmark) told(ctx context.Context, d *dialect.Dialect, root, policy string) (*program, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if policy != "" {
		if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
			return nil, err
		}
	}
	p, err := b.tells(d, root, shellLine)
	if err != nil {
		return nil, err
	}
	if out, err := p.output(ctx); err != nil || strings.Contains(out, canaryReason) {
		return nil, errors.Join(fmt.Errorf("%s: no rule concerns this event, but it answers %q", d.Name, out), err)
	}
	if policy == "" {
		return p, nil
	}
	canary, err := b.tells(d, root, canaryCommand)
	if err != nil {
		return nil, err
	}
	// Some agents are told by the exit code and stderr, which is part of the error.
	if out, err := canary.output(ctx); !strings.Contains(fmt.Sprint(out, err), canaryReason) {
		return nil, errors.Join(fmt.Errorf("%s: the policy is not in force: it answers %q", d.Name, out), err)
	}
	return p, recorded(filepath.Join(root, "state"))
}

// tells is a program that reads of a call of a shell in an agent's words.
func (b *benchmark) tells(d *dialect.Dialect, root, line string) (*program, error) {
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
