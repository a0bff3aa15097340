package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
)

// Parts of the benchmark's events.
const (
	sessionID = "0c7f9f60-41b5-4b6c-9a53-6a2f5d1be7aa"
	idMark    = "00000000" // replaced by the ID of each run
	atOnce    = 8          // hooks at once: an agent's batch of parallel calls
	bigEvent  = 1 << 20
	warmRules = 1000
)

func shellInput() map[string]any {
	return map[string]any{"command": shellLine, "description": "Install, test, commit", "timeout": 120000}
}

// setupHook sets up the most common events with the most common configurations.
func setupHook(ctx context.Context, s *setup) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	for _, p := range s.paths {
		p.reference, p.floor = static, static
	}
	none, rules, packs, daemon := s.paths[0], s.paths[1], s.paths[2], s.paths[3]
	none.subject, none.err = s.hookSeries(ctx, "idle", "")
	rules.subject, rules.err = s.hookSeries(ctx, "rules", policyFile(50, watchThis))
	if rules.err == nil {
		rules.floor, rules.err = s.appending()
	}
	packs.subject, packs.err = s.hookSeries(ctx, "packs", packsFile())
	daemon.subject, daemon.err = s.daemonHook(ctx)
	if daemon.err == nil {
		daemon.floor, daemon.err = s.asking(ctx)
	}
	return nil
}

// daemonHook describes grapnel-hook that asks a warm daemon, and makes sure that the daemon
// answers.
func (s *setup) daemonHook(ctx context.Context) (*series, error) {
	policy := policyFile(warmRules, watchNothing)
	d, err := s.daemon(ctx, "daemon", policy)
	if err != nil {
		return nil, err
	}
	before, err := d.Health(ctx)
	if err != nil {
		return nil, err
	}
	hook, err := s.hookSeries(ctx, "daemon", policy)
	if err != nil {
		return nil, err
	}
	after, err := d.Health(ctx)
	if err == nil && after.Answered-before.Answered != 2 {
		err = fmt.Errorf("the daemon answered %d of 2 events: %s", after.Answered-before.Answered, d.Output())
	}
	return hook, err
}

// daemon starts a daemon with a policy.
func (s *setup) daemon(ctx context.Context, name, policy string) (*served.Daemon, error) {
	root, err := s.root(name, policy)
	if err != nil {
		return nil, err
	}
	d, err := served.Start(ctx, s.bin, root, nil)
	if err == nil {
		s.atEnd(d.Stop)
	}
	return d, err
}

// asking is the floor of a hook that asks a daemon.
func (s *setup) asking(ctx context.Context) (*series, error) {
	socket := filepath.Join(s.dir, "peer.sock")
	if err := s.peer(ctx, socket); err != nil {
		return nil, err
	}
	return s.staticShell("ask", socket)
}

// manyRules is the number of rules in the largest policy of the benchmark. Rules that observe
// the event are among the first of them.
const (
	manyRules      = 10_000
	observingRules = 2000
)

func setupManyRules(ctx context.Context, s *setup) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	thousand, ten := s.paths[0], s.paths[1]
	thousand.reference, ten.reference = static, static
	thousand.subject, thousand.err = s.hookSeries(ctx, "thousand", policyFile(1000, watchThis))
	if thousand.err == nil {
		thousand.floor, thousand.err = s.loading("thousand")
	}
	ten.subject, ten.err = s.hookSeries(ctx, "ten-thousand", policyFile(observingRules, watchThis)+rules(observingRules, manyRules, watchNothing))
	if ten.err == nil {
		ten.floor, ten.err = s.loading("ten-thousand")
	}
	return nil
}

// loading is the floor of a hook that reads the snapshots of its policies.
func (s *setup) loading(name string) (*series, error) {
	size, err := sizeOf(served.State(filepath.Join(s.dir, name)))
	if err != nil {
		return nil, err
	}
	blob, err := s.blob(name+".blob", size)
	if err != nil {
		return nil, err
	}
	return s.staticShell("load", blob)
}

// sizeOf returns the total size in bytes of the files in a directory.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// setupGrapnel sets up the start of the program that people type.
func setupGrapnel(_ context.Context, s *setup) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	start, err := s.program("grapnel version", []string{s.exe("grapnel"), "version"}, "", nil)
	if err != nil {
		return err
	}
	s.paths[0].reference, s.paths[0].floor, s.paths[0].subject = static, static, start.wall()
	return nil
}

// setupBigEvent sets up a large event, compared with static that decodes the same.
func setupBigEvent(ctx context.Context, s *setup) error {
	write := map[string]any{"file_path": filepath.Join(s.project, "web", "data.json"), "content": text(bigEvent)}
	static, err := s.program("static, same event", []string{s.exe("static")}, "Write", write)
	if err != nil {
		return err
	}
	if err := expect(ctx, static, asks, true); err != nil {
		return err
	}
	big := s.paths[0]
	big.reference = static.wall()
	if big.floor, err = s.static("Write", write, "scan"); err != nil {
		return err
	}
	hook, err := s.hook(ctx, "big", policyFile(50, watchThis), "Write", write)
	if err != nil {
		return err
	}
	big.subject = hook.wall()
	return nil
}

// setupBigResult sets up a large result of a tool, in which packs look for secrets.
func setupBigResult(ctx context.Context, s *setup) error {
	if _, err := s.hook(ctx, "result", packsFile(), "Bash", shellInput()); err != nil {
		return err
	}
	result := map[string]any{"stdout": text(bigEvent), "stderr": "", "interrupted": false, "isImage": false}
	big := s.paths[0]
	for _, with := range []struct {
		to   **series
		argv []string
	}{
		{&big.subject, []string{s.exe("grapnel-hook"), "claude-code", "--root", filepath.Join(s.dir, "result")}},
		{&big.floor, []string{s.exe("static"), "scan"}},
	} {
		p, err := s.program(filepath.Base(with.argv[0])+", 1 MB tool result", with.argv, "", nil)
		if err != nil {
			return err
		}
		ev := map[string]any{"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": shellInput(), "tool_response": result}
		if p.payload, err = s.event(ev, sessionID); err != nil {
			return err
		}
		if out, err := p.output(ctx); err != nil || blocked(out) || strings.Contains(out, `"block"`) {
			return errors.Join(fmt.Errorf("%s: unexpected answer %.300q", p.name, out), err)
		}
		*with.to = p.wall()
	}
	return nil
}

// setupBuiltLines sets up three lines that are longer than lines of a person.
func setupBuiltLines(ctx context.Context, s *setup) error {
	many := func(n int, format, join string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, join)
	}
	for i, line := range []string{
		many(700, "echo step%[1]d && cp src/a%[1]d.txt out/b%[1]d.txt && grep -n x y%[1]d", "; "),
		"python3 - <<'PY'\n" + many(1150, "data[%[1]d] = {'name': 'item %[1]d', 'path': 'src/items/%[1]d.json', 'value': compute(%[1]d)}", "\n") + "\nPY",
		"git add " + many(2000, "src/module%[1]d/file%[1]d.go", " "),
	} {
		input := map[string]any{"command": line}
		hook, err := s.hook(ctx, fmt.Sprint("built-", i), packsFile(), "Bash", input)
		if err != nil {
			return err
		}
		static, err := s.program("static", []string{s.exe("static")}, "Bash", input)
		if err != nil {
			return err
		}
		if out, err := hook.output(ctx); err != nil || blocked(out) || asks(out) {
			return errors.Join(fmt.Errorf("%s: unexpected answer %.300q", hook.name, out), err)
		}
		s.paths[i].subject, s.paths[i].floor = hook.together(1), static.together(1)
	}
	return nil
}

// The number of sessions in the state directory before a new one begins.
const (
	knownSessions      = 2000
	knownSessionsQuick = 1000
)

// setupSessions sets up the first event of a session that Grapnel has not seen, compared with a
// later event of a known session. The state directory is as large as after some weeks of work.
func setupSessions(ctx context.Context, s *setup) error {
	policy := policyFile(50, watchNothing)
	known, err := s.hook(ctx, "sessions", policy, "Bash", shellInput())
	if err != nil {
		return err
	}
	root := filepath.Join(s.dir, "sessions")
	n := knownSessions
	if s.quick {
		n = knownSessionsQuick
	}
	if err := s.sessions(ctx, root, n); err != nil {
		return err
	}
	fresh, err := s.program("new session", known.argv, "Bash", shellInput())
	if err != nil {
		return err
	}
	ev := map[string]any{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": shellInput()}
	if fresh.payload, err = s.event(ev, sessionID[:len(sessionID)-idDigits]+idMark); err != nil {
		return err
	}
	p := s.paths[0]
	p.reference, p.subject = known.wall(), fresh.wall()
	p.reference.name = "a later event"
	// A first event must create a file; a later event appends to a file.
	dir, err := s.tempDir("created")
	if err != nil {
		return err
	}
	if p.floorReference, err = s.appending(); err != nil {
		return err
	}
	p.floor, err = s.staticShell("create", dir)
	return err
}

// sessions runs a grapnel-hook process that stays open and answers one event of each of n
// sessions.
func (s *setup) sessions(ctx context.Context, root string, n int) (err error) {
	c, err := converse(ctx, s.exe("grapnel-hook"), root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for i := range n {
		c.session = fmt.Sprintf("known-%d", i)
		if _, err := c.ask(plainCommand); err != nil {
			return err
		}
	}
	return nil
}

// setupParallel sets up eight hooks at once, compared with eight in turn by the CPU time of
// all.
func setupParallel(ctx context.Context, s *setup) error {
	hook, err := s.hook(ctx, "parallel", policyFile(50, watchThis), "Bash", shellInput())
	if err != nil {
		return err
	}
	static, err := s.program("static", []string{s.exe("static")}, "Bash", shellInput())
	if err != nil {
		return err
	}
	p := s.paths[0]
	p.subject, p.reference = hook.together(atOnce), hook.inTurn(atOnce)
	p.floor, p.floorReference = static.together(atOnce), static.inTurn(atOnce)
	return nil
}

// program describes a command that reads a PreToolUse event of Claude Code, or nothing if
// tool is empty. Its environment is small and the same everywhere.
func (b *bench) program(name string, argv []string, tool string, input map[string]any) (*program, error) {
	p := &program{
		name: name, argv: argv, dir: b.project, null: b.null,
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + b.dir, "LANG=C"},
	}
	if tool == "" {
		return p, nil
	}
	var err error
	p.payload, err = b.event(map[string]any{"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input}, sessionID)
	return p, err
}

// event completes an event of Claude Code. Each run has its own ID.
func (b *bench) event(ev map[string]any, session string) (*payload, error) {
	ev["session_id"], ev["cwd"], ev["permission_mode"] = session, b.project, "default"
	ev["transcript_path"], ev["tool_use_id"] = filepath.Join(b.dir, "transcript.jsonl"), "toolu_"+idMark
	data, err := json.Marshal(ev)
	if err != nil {
		return nil, err
	}
	return newPayload(append(data, '\n'), idMark, b.dir)
}

// root returns a root directory with a user policy. If policy is empty, it writes no policy.
func (b *bench) root(name, policy string) (string, error) {
	root, err := b.tempDir(name)
	if err != nil || policy == "" {
		return root, err
	}
	return root, os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600)
}

// hookSeries measures grapnel-hook with the shell event.
func (b *bench) hookSeries(ctx context.Context, name, policy string, args ...string) (*series, error) {
	p, err := b.hook(ctx, name, policy, "Bash", shellInput(), args...)
	if err != nil {
		return nil, err
	}
	return p.wall(), nil
}

// hook describes grapnel-hook with a separate root and policy. It verifies that grapnel-hook
// judges events by that policy and writes Records, because a hook that does nothing would look
// fast.
func (b *bench) hook(ctx context.Context, name, policy, tool string, input map[string]any, args ...string) (*program, error) {
	root, err := b.root(name, policy)
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.exe("grapnel-hook"), "claude-code", "--root", root}, args...)
	p, err := b.program("grapnel-hook "+name, argv, tool, input)
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, p, blocked, false); err != nil {
		return nil, fmt.Errorf("no rule applies to this event: %w", err)
	}
	if policy == "" {
		return p, nil
	}
	canary, err := b.program(p.name, argv, "Bash", map[string]any{"command": canaryCommand})
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, canary, blocked, true); err != nil {
		return nil, fmt.Errorf("the policy is not in force: %w", err)
	}
	return p, recorded(served.State(root))
}

// blocked and asks report the decision of a reply to Claude Code.
func blocked(out string) bool { return strings.Contains(out, `"permissionDecision":"deny"`) }
func asks(out string) bool    { return strings.Contains(out, `"permissionDecision":"ask"`) }

// expect makes sure that a program succeeds and prints the expected decision.
func expect(ctx context.Context, p *program, decision func(string) bool, want bool) error {
	out, err := p.output(ctx)
	if err == nil && decision(out) != want {
		err = fmt.Errorf("%s: unexpected answer %.300q", p.name, out)
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
