// Program policies uses the packages that read policies, and package dialect, as another module does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/local/server"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/ironclaw"
	"github.com/grapnel-dev/grapnel/systems/miniclaw"
)

const text = `version: 1
use: [destructive]
load: [{format: ironclaw, file: bundle.json}]
hooks:
  - {name: worker, on: tool.before, match: {command: make}, run: "echo '{\"decision\":\"ask\"}'"}
`

const bundle = `{"rules": [{"name": "no-deploy", "points": ["beforeToolCall"], "when_regex": "deploy", "reject_reason": "Ask the release team."}]}`

const settings = `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}`

func main() {
	dir, err := os.MkdirTemp("", "grapnel-")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{"grapnel.yaml": text, "bundle.json": bundle, "settings.json": settings} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	err = errors.Join(err, loaded(dir), opened(dir), served(dir), started(dir), dispatched(), imported(dir), built(), os.RemoveAll(dir), goleak.Find())
	if err != nil {
		log.Fatal(err)
	}
}

// want lists the decisions about shell lines under the policy.
var want = map[string]grapnel.Decision{"ls": grapnel.None, "rm -rf ~": grapnel.Block, "make": grapnel.Ask, "./deploy": grapnel.Block}

// judge fires all shell lines at once.
func judge(ctx context.Context, engine *grapnel.Engine, root string) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(want))
	for line, decision := range want {
		wg.Go(func() {
			input, err := json.Marshal(map[string]string{"command": line})
			v := engine.Fire(ctx, &grapnel.Event{
				Kind:    grapnel.ToolBefore,
				Session: grapnel.Session{ID: "s1", CWD: root, Root: root},
				Tool:    &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: input},
			})
			if err == nil && v.Decision != decision {
				err = fmt.Errorf("%s: %v (%s), want %v", line, v.Decision, v.Reason(), decision)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// loaded uses load.Policies with its own programs, and answers in the format of an agent.
func loaded(dir string) error {
	set := load.Policies(load.Request{
		Files: []load.File{{Path: filepath.Join(dir, "grapnel.yaml"), Scope: grapnel.ScopeUser, Must: true}},
		Packs: packs.All(),
		Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook {
			return &process.Command{Name: c.Name, Line: c.Line, Args: c.Args, Dir: c.Dir, Executor: process.System}
		}},
	})
	if set.Files[0].State != load.Valid {
		return fmt.Errorf("the policy is %s: %v", set.Files[0].State, set.Files)
	}
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	claude, ok := dialect.Find("claude-code")
	if !ok {
		return errors.New("no dialect of claude-code")
	}
	reply := dialect.Answer(ctx, engine, claude, dialect.Input{
		Payload: []byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"./deploy"}}`),
	})
	if !strings.Contains(string(reply.Stdout), "Ask the release team.") {
		return fmt.Errorf("reply %s", reply.Stdout)
	}
	return errors.Join(judge(ctx, engine, dir), engine.Close(ctx))
}

// opened uses the same policy as the programs do.
func opened(dir string) error {
	ctx := context.Background()
	engine, err := local.Open(ctx, &local.Options{Root: dir, CWD: dir})
	if err != nil {
		return err
	}
	return errors.Join(judge(ctx, engine.Engine, engine.Root), engine.Close(ctx))
}

// served uses the same policy in a program that runs for long.
func served(dir string) error {
	ctx := context.Background()
	engine, err := server.Open(ctx, &server.Options{Root: dir, CWD: dir, Agent: "outside"})
	if err != nil {
		return err
	}
	err = errors.Join(judge(ctx, engine.Engine, engine.Root), engine.Reload(ctx), engine.Close(ctx))
	if n := engine.Counts(); n.Events != uint64(len(want)) || n.Lost != 0 {
		err = errors.Join(err, fmt.Errorf("the engine counts %+v", n))
	}
	return err
}

// started starts the hooks of an IronClaw installation, which has none here.
func started(dir string) error {
	ctx := context.Background()
	hooks := ironclaw.NewHookRegistry(nil)
	if _, err := hooks.Bootstrap(&ironclaw.BootstrapOptions{Home: dir, Workspace: dir}); err != nil {
		return err
	}
	outcome, err := hooks.Run(ctx, ironclaw.Inbound{Content: "hello"})
	if outcome != ironclaw.OK() {
		err = errors.Join(err, fmt.Errorf("the outcome is %v, want OK", outcome))
	}
	return errors.Join(err, hooks.Engine().Close(ctx))
}

// dispatched uses the hooks of mini-claw-code.
func dispatched() error {
	hooks := miniclaw.NewHookRegistry().With(miniclaw.NewBlockingHook([]string{"deploy"}, "no"))
	if action := hooks.Dispatch(context.Background(), miniclaw.PreToolCall{ToolName: "deploy"}); action != miniclaw.Block("no") {
		return fmt.Errorf("the action is %v, want Block(no)", action)
	}
	return nil
}

// imported converts hooks of another system to a policy.
func imported(dir string) error {
	got, err := systems.Import("claude-code", []string{filepath.Join(dir, "settings.json")}, policy.Parse)
	if err != nil {
		return err
	}
	if p, errs := policy.Parse("grapnel.yaml", got.Policy); len(errs) > 0 || len(p.Hooks) != 1 {
		return fmt.Errorf("imported %s: %v", got.Policy, errs)
	}
	return nil
}

// built makes a policy from data.
func built() error {
	specs, err := policy.Build(&policyfile.Policy{Version: 1, Hooks: []policyfile.Hook{{
		Name: "no-push", On: []grapnel.Kind{grapnel.ToolBefore}, Match: &policyfile.Match{Command: []string{"git push"}}, Decide: "block", Reason: "No.",
	}}}, grapnel.Source{Name: "settings"}, nil)
	if err != nil || len(specs) != 1 {
		return fmt.Errorf("%d Specs, %w", len(specs), err)
	}
	return nil
}
