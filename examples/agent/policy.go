package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	_ "github.com/grapnel-dev/grapnel/policy/foreign" // hook files of other systems
	"github.com/grapnel-dev/grapnel/process"
)

// policyName is what a project calls its policy.
const policyName = "grapnel.yaml"

// maxDepth is how deep hooks may start agents whose hooks start agents.
const maxDepth = 3

// Guards are the hooks in force, and what they keep running.
type guards struct {
	engine  *grapnel.Engine
	root    string // of the project
	workers []*process.Worker
	hooks   *outbound.Client // for webhooks
}

// openGuards loads the user's policy, the project's as far as a person has trusted it
// with "grapnel trust", and those that the command line names, which need no trust.
// root is that of --root, or empty.
func openGuards(root, cwd string, named []string, observers ...grapnel.Observer) (*guards, error) {
	user, state, err := places(root)
	if err != nil {
		return nil, err
	}
	counter, err := spool.Open(filepath.Join(state, "spool"), nil) // limits count beside those of other agents
	if err != nil {
		return nil, err
	}
	g := &guards{root: projectRoot(cwd)}
	request := policy.Request{
		Files: policyFiles(user, g.root, cwd, named), Packs: packs.All(), Counter: counter, State: state,
		Snapshots: filepath.Join(state, "policy"), Trusts: policy.Trusts(filepath.Join(state, "trust")),
	}
	networks, err := outbound.ParseNetworks(policy.Load(request).Networks) // says what webhooks may reach
	if err != nil {
		return nil, err
	}
	g.hooks = outbound.NewClient(&outbound.Options{Guard: outbound.Guard{Networks: networks}})
	request.Command, request.Webhook, request.HTTP = g.program, g.webhook, g.server
	set := policy.Load(request)
	if pause, ok := policy.ReadPause(filepath.Join(state, "pause.json"), time.Now()); ok {
		set.Specs = pause.Apply(set.Specs)
	}
	g.engine, err = grapnel.New(set.Specs, &grapnel.Options{Observers: observers})
	return g, err
}

// close waits for what runs in the background, and ends what is kept running.
func (g *guards) close(ctx context.Context) error {
	errs := []error{g.engine.Close(ctx), g.hooks.Close(ctx)}
	for _, w := range g.workers {
		errs = append(errs, w.Close(ctx))
	}
	return errors.Join(errs...)
}

// places says where the user's policy is, and where Grapnel keeps what it knows: the
// same places as for the program grapnel.
func places(root string) (user, state string, err error) {
	if state, err = installation.State(root); err != nil {
		return "", "", err
	}
	if root != "" {
		return filepath.Join(root, policyName), state, nil
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", errors.New("no home directory: set HOME, or use --root DIR")
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "grapnel", policyName), state, nil
}

// policyFiles lists the policies: the user's, the project's from its root down to where
// the agent works, and those that are named.
func policyFiles(user, root, cwd string, named []string) []policy.File {
	files := []policy.File{{Path: user, Scope: grapnel.ScopeUser}}
	var project []policy.File
	for dir := policy.RealPath(cwd); ; dir = filepath.Dir(dir) {
		if name := filepath.Join(dir, policyName); name != user {
			project = append(project, policy.File{Path: name, Scope: grapnel.ScopeProject, Trust: true})
		}
		if dir == policy.RealPath(root) || dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(project)
	files = append(files, project...)
	for _, name := range named {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cwd, name)
		}
		if i := slices.IndexFunc(files, func(f policy.File) bool { return policy.RealPath(f.Path) == policy.RealPath(name) }); i >= 0 {
			files[i].Must, files[i].Trust = true, false
			continue
		}
		files = append(files, policy.File{Path: name, Scope: grapnel.ScopeSession, Must: true})
	}
	return files
}

// projectRoot is the nearest directory that a version control system calls its own, or
// cwd.
func projectRoot(cwd string) string {
	for dir, last := cwd, ""; dir != last; dir, last = filepath.Dir(dir), dir {
		for _, mark := range []string{".git", ".hg", ".jj"} {
			if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
				return dir
			}
		}
	}
	return cwd
}

// program makes the hook behind a `run:`.
func (g *guards) program(c policy.Command) grapnel.Hook {
	if process.Depth() >= maxDepth { // or a hook that starts this agent would never end
		return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, fmt.Errorf("not started: hooks are nested deeper than %d (GRAPNEL_DEPTH)", maxDepth)
		})
	}
	cmd := process.Command{
		Name: c.Name, Line: c.Line, Args: c.Args, Dir: c.Dir, Env: c.Vars, Allow: c.Env, Inherit: process.InheritFor(c.Scope),
		InDir:    c.Scope == grapnel.ScopeProject, // what was trusted is what its words name there
		Executor: process.System,
	}
	if c.Worker {
		cmd.InDir = true
		w := &process.Worker{Command: cmd}
		g.workers = append(g.workers, w)
		return w
	}
	if d := c.Dialect(); d != nil {
		cmd.Dialect, cmd.Vars = d, d.HookEnv
	}
	return &cmd
}

// webhook makes the hook behind an address.
func (g *guards) webhook(w policy.Webhook) (grapnel.Hook, error) {
	return g.hooks.Webhook(outbound.Config{
		Name: w.Name, URL: w.URL, Headers: w.Headers, Timeout: time.Duration(w.Timeout), MaxInFlight: w.MaxInFlight, Body: w.Body,
	})
}

// server makes the hook behind a `http:`.
func (g *guards) server(h policy.HTTP) (grapnel.Hook, error) {
	h, err := h.Resolve()
	if err != nil {
		return nil, err
	}
	return g.hooks.Hook(outbound.HookConfig{
		Name: h.FullName(), URL: h.URL, Secrets: h.Secrets, Headers: h.Headers, Timeout: time.Duration(h.Timeout), Body: h.Body,
		Failures: h.Breaker.Failures, Cooldown: time.Duration(h.Breaker.Cooldown),
	})
}
