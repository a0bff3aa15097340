package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// How many times /bin/true a hook may take that has no policy, and one with 50 rules that
// writes one Record line; for every agent alike.
const (
	noPolicyBudget = 1.9
	rulesBudget    = 2.8
	packsBudget    = 0.8 // above no policy
)

// What the events of the benchmark carry.
const (
	sessionID = "0c7f9f60-41b5-4b6c-9a53-6a2f5d1be7aa"
	idMark    = "00000000" // where each run's own ID goes
	crowd     = 8          // hooks at once: an agent's batch of parallel calls
	bigEvent  = 1 << 20
)

// benchmark is the set-up that the rows about programs share.
type benchmark struct {
	dir, bin, project string
	null              *os.File
}

// spawnContests returns the rows about programs, in groups to be measured one
// after the other. Every set-up has been seen to do its work when it returns.
func spawnContests(ctx context.Context, dir, bin string, background *daemons) ([]group, error) {
	b := &benchmark{dir: dir, bin: bin, project: filepath.Join(dir, "project")}
	if err := os.MkdirAll(filepath.Join(b.project, ".git"), 0o700); err != nil { // a project's root
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	b.null = null
	nothing, err := exec.LookPath("true")
	if err != nil {
		return nil, fmt.Errorf("nothing to compare with: %w", err)
	}

	shell := map[string]any{"command": shellLine, "description": "Install, test, commit", "timeout": 120000}
	write := map[string]any{"file_path": filepath.Join(b.project, "web", "data.json"), "content": text(bigEvent)}

	floor, err := b.program("/bin/true", []string{nothing}, "", nil)
	if err != nil {
		return nil, err
	}
	least, err := b.program("static Go, decodes and answers", []string{b.exe("static")}, "Bash", shell)
	if err != nil {
		return nil, err
	}
	static, err := b.program("static Go", []string{b.exe("static")}, "Write", write)
	if err != nil {
		return nil, err
	}
	idle, err := b.hook(ctx, "idle", "", "Bash", shell)
	if err != nil {
		return nil, err
	}
	rules, err := b.hook(ctx, "rules", policyFile(50, watchThis), "Bash", shell)
	if err != nil {
		return nil, err
	}
	packed, err := b.hook(ctx, "packs", packsFile(), "Bash", shell)
	if err != nil {
		return nil, err
	}
	through, err := background.through(ctx, b, shell)
	if err != nil {
		return nil, err
	}
	big, err := b.hook(ctx, "big", policyFile(50, watchThis), "Write", write)
	if err != nil {
		return nil, err
	}
	many, err := b.hook(ctx, "many", policyFile(50, watchThis), "Bash", shell)
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, static, asks, true); err != nil {
		return nil, err
	}
	info, err := os.Stat(idle.argv[0])
	if err != nil {
		return nil, err
	}

	base, none := floor.wallSide(), idle.wallSide()
	together := newSide("eight at once", func() (float64, error) {
		u, err := many.runMany(crowd)
		return u.cpu.Seconds(), err
	})
	inTurn := newSide("eight in turn", func() (float64, error) {
		total := 0.0
		for range crowd {
			u, err := many.run()
			if err != nil {
				return 0, err
			}
			total += u.cpu.Seconds()
		}
		return total, nil
	})
	told, err := b.dialectGroups(ctx, floor)
	if err != nil {
		return nil, err
	}
	return append([]group{{
		contests: []*contest{
			{name: "grapnel-hook, no policy", subject: none, reference: base, budget: noPolicyBudget, show: milliseconds},
			{name: "50 rules, one Record line, no daemon", subject: rules.wallSide(), reference: base, budget: rulesBudget, show: milliseconds},
			{name: "through the daemon, 1,000 rules", subject: through.wallSide(), reference: base, budget: throughBudget, show: milliseconds},
			{name: "all packs, above no policy", subject: packed.wallSide(), less: none, reference: base, budget: packsBudget, show: milliseconds},
		},
		beside: []*contest{{name: least.name, subject: least.wallSide(), reference: base, show: milliseconds}},
	}, {
		contests: []*contest{{name: "1 MB Write event, 50 rules", subject: big.wallSide(), reference: static.wallSide(), budget: 1.5, show: milliseconds}},
	}, {
		contests: []*contest{{name: "8 at once, total CPU", subject: together, reference: inTurn, budget: 1.3, show: milliseconds}},
	}, {
		contests: []*contest{{
			name: "grapnel-hook binary", subject: constant("grapnel-hook", float64(info.Size())),
			reference: constant("MB", 1e6), budget: 6, exact: true, show: func(x float64) string { return fmt.Sprintf("%.2f MB", x/1e6) },
		}},
	}}, told...), nil
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }

func (b *benchmark) exe(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(b.bin, name)
}

// program describes a command that is fed a PreToolUse event of Claude Code, or
// nothing when tool is empty. Its environment is small and the same everywhere.
func (b *benchmark) program(name string, argv []string, tool string, input map[string]any) (*program, error) {
	p := &program{
		name: name, argv: argv, dir: b.project, null: b.null,
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + b.dir, "LANG=C"},
	}
	if tool == "" {
		return p, nil
	}
	ev, err := json.Marshal(map[string]any{
		"session_id": sessionID, "transcript_path": filepath.Join(b.dir, "transcript.jsonl"),
		"cwd": b.project, "permission_mode": "default", "hook_event_name": "PreToolUse",
		"tool_name": tool, "tool_input": input, "tool_use_id": "toolu_" + idMark,
	})
	if err != nil {
		return nil, err
	}
	p.payload, err = newPayload(append(ev, '\n'), idMark, b.dir)
	return p, err
}

// hook describes grapnel-hook with a directory and a policy of its own, and makes
// sure that it judges events by that policy and keeps Records of them: a hook that
// does nothing would be quick.
func (b *benchmark) hook(ctx context.Context, name, policy, tool string, input map[string]any) (*program, error) {
	root := filepath.Join(b.dir, name)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if policy != "" {
		if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
			return nil, err
		}
	}
	argv := []string{b.exe("grapnel-hook"), "claude-code", "--root", root}
	p, err := b.program("grapnel-hook "+name, argv, tool, input)
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, p, refuses, false); err != nil {
		return nil, fmt.Errorf("%w: no rule concerns this event", err)
	}
	if policy == "" {
		return p, nil
	}
	canary, err := b.program(p.name, argv, "Bash", map[string]any{"command": canaryCommand})
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, canary, refuses, true); err != nil {
		return nil, fmt.Errorf("%w: the policy is not in force", err)
	}
	return p, recorded(filepath.Join(root, "state"))
}

// refuses and asks report what an answer to Claude Code says.
func refuses(out string) bool { return strings.Contains(out, `"permissionDecision":"deny"`) }
func asks(out string) bool    { return strings.Contains(out, `"permissionDecision":"ask"`) }

// expect makes sure that a program succeeds and prints what it should.
func expect(ctx context.Context, p *program, says func(string) bool, want bool) error {
	out, err := p.output(ctx)
	if err == nil && says(out) != want {
		err = fmt.Errorf("%s: unexpected answer %q", p.name, out)
	}
	return err
}

// recorded makes sure that a Record of the benchmark's session was written.
func recorded(state string) error {
	found := errors.New("found")
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), sessionID) {
			return found
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return nil
	case err == nil:
		err = errors.New("no file names the session")
	}
	return fmt.Errorf("no Record in %s: %w", state, err)
}
