package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/local"
)

// runs is how often the hook is measured, after warmUps more runs.
const (
	runs     = 20
	warmUps  = 2
	mostTime = 4 * time.Second // for all runs of all agents
)

// latency runs the installed program with the same arguments as the agent, but with a temporary
// root instead of the installation, so that no Record, count or snapshot is left behind. The
// policy is passed by name. If the event would start a program of the user or write one of the
// user's files, the policy is left out.
func (g *gatherer) latency(ctx context.Context, a *agent) *latency {
	in := a.installs[0]
	if in.program.gone || in.program.cannot != "" || in.program.open != "" || ctx.Err() != nil {
		return nil
	}
	root, err := os.MkdirTemp("", "grapnel-doctor-")
	if err != nil {
		return &latency{failed: err.Error()}
	}
	defer func() { _ = os.RemoveAll(root) }()
	native, payload, err := probe(a.Dialect, in.Events, root)
	if err != nil || payload == nil {
		return nil // no event can be created for this agent
	}
	l := &latency{event: native, wait: in.Timeout(native), slow: g.Slow}
	args := []string{a.Name, native, "--root", root}
	file := cmp.Or(in.Policy, g.Place.Policy) // a managed installation has no separate policy
	if _, err := os.Stat(file); err == nil {
		if l.without, err = g.leaving(ctx, a.Dialect, file, root, dialect.Input{Payload: payload, Event: native}); err != nil {
			l.failed = err.Error()
			return l
		}
		if len(l.without) == 0 {
			args = append(args, "--policy", file)
		}
	}
	var times, floor []time.Duration
	nothing := doesNothing()
	for i := range warmUps + runs {
		t, err := run(ctx, root, payload, in.Program, args...)
		if err != nil {
			if l.runs = len(times); l.runs == 0 || ctx.Err() == nil {
				l.failed = err.Error()
				return l
			}
			break
		}
		if i >= warmUps {
			times = append(times, t)
			if nothing != "" {
				if t, err := run(ctx, root, nil, nothing); err == nil {
					floor = append(floor, t)
				}
			}
		}
	}
	slices.Sort(times)
	slices.Sort(floor)
	l.runs, l.median, l.most = len(times), times[len(times)/2], times[len(times)-1]
	if len(floor) > 0 {
		l.floor = floor[len(floor)/2]
	}
	return l
}

// doesNothing returns the path of a program that does nothing, for comparison; empty if not
// found. It does not use PATH, because a project may have changed it.
func doesNothing() string {
	for _, file := range []string{"/bin/true", "/usr/bin/true"} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// run starts a program, waits for it, and returns the duration.
func run(ctx context.Context, dir string, stdin []byte, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if _, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		// An exit code of 2 or more may be part of a reply.
		if code := cmd.ProcessState.ExitCode(); code != 1 && code != 64 && code > 0 {
			return took, nil
		}
	}
	if err != nil {
		return took, fmt.Errorf("%s: %w: %s", program, err, cut(string(bytes.TrimSpace(stderr.Bytes())), 300))
	}
	return took, nil
}

// probe creates a harmless event that the agent is installed for: a shell command that does
// nothing, or else the first one possible.
func probe(d *dialect.Dialect, installed []string, dir string) (native string, payload []byte, err error) {
	if d.WriteEvent == nil {
		return "", nil, nil
	}
	rows := slices.Clone(d.Events)
	slices.SortStableFunc(rows, func(a, b dialect.EventRow) int {
		return cmp.Compare(rank(a.Kind), rank(b.Kind))
	})
	for _, row := range rows {
		if !slices.Contains(installed, row.Native) {
			continue
		}
		ev := &grapnel.Event{
			Kind: row.Kind, Agent: grapnel.Agent{Name: d.Name}, Session: grapnel.Session{ID: "grapnel-doctor", CWD: dir, Root: dir},
		}
		if row.Kind == grapnel.ToolBefore {
			if ev, err = call(dir); err != nil {
				return "", nil, err
			}
		}
		payload, err = d.WriteEvent(ev)
		if err != nil || len(payload) == 0 {
			continue
		}
		// If each kind of tool has its own event, the payload contains its name.
		var top map[string]json.RawMessage
		var name string
		if json.Unmarshal(payload, &top) == nil && json.Unmarshal(top[cmp.Or(d.NamedAt, "hook_event_name")], &name) == nil && d.Row(name) != nil {
			row = *d.Row(name)
		}
		return row.Native, payload, nil
	}
	return "", nil, err
}

// call returns a call of a shell that does nothing, in the dialect from which other dialects
// translate.
func call(dir string) (*grapnel.Event, error) {
	payload, err := json.Marshal(map[string]any{
		"session_id": "grapnel-doctor", "cwd": dir, "hook_event_name": "PreToolUse",
		"tool_name": "Bash", "tool_use_id": "grapnel-doctor", "tool_input": map[string]string{"command": "true"},
	})
	if err != nil {
		return nil, err
	}
	return dialect.ClaudeCode().Read(dialect.Input{Payload: payload})
}

func rank(kind grapnel.Kind) int {
	if i := slices.Index([]grapnel.Kind{grapnel.ToolBefore, grapnel.SessionStart, grapnel.ToolAfter}, kind); i >= 0 {
		return i
	}
	return 9
}

// leaving returns the hooks that would start a program or make a request for an event, or write
// files of their own. Such hooks are not run for a measurement.
func (g *gatherer) leaving(ctx context.Context, d *dialect.Dialect, file, root string, in dialect.Input) ([]string, error) {
	var names []string
	place := g.Place
	place.Policy, place.State, place.Managed = file, filepath.Join(root, "look"), ""
	engine, err := local.Open(ctx, &local.Options{
		Place: &place, Files: place.Files(nil, nil),
		Runners: dryrun.Runners(func(c dryrun.Call) (grapnel.Hook, error) {
			if c.Observes() {
				return nil, nil // see Background
			}
			return grapnel.Watch(func(context.Context, *grapnel.Event) { names = append(names, c.Name) }), nil
		}),
		Background: func(_ context.Context, _ *grapnel.Event, hooks []grapnel.Spec) error {
			for i := range hooks {
				names = append(names, hooks[i].Name)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	_ = dialect.Answer(ctx, engine.Engine, d, in)
	slices.Sort(names)
	return slices.Compact(names), nil
}
