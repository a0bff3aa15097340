//go:build system && unix

package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A Go agent uses the defaults of the system that its hooks were written for.
func Example_preset() {
	spec := grapnel.Spec{Name: "h", Hook: grapnel.Guard(func(*grapnel.Event) string { return "no" })}

	preset, _ := grapnel.FindPreset("ironclaw")
	engine, err := grapnel.New([]grapnel.Spec{preset.Defaults(spec)}, &grapnel.Options{Preset: preset})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.Specs("")[0].Timeout)
	// Output: 5s
}

// A Go agent loads a policy file and chooses how to run its programs: here the user's programs
// run directly and all other programs run in a sandbox. Workers keep running.
func Example_policies() {
	dir, err := os.MkdirTemp("", "grapnel-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "grapnel.yaml")
	const text = `
version: 1
hooks:
  - name: who
    on: tool.before
    run: test -z "$SANDBOX" || exit 2
  - name: counts
    on: tool.before
    worker: |
      echo '{"grapnel":1,"type":"hello","name":"counts"}'
      while read -r line; do
        case $line in '{"type":"event"'*) ;; *) continue ;; esac
        n=$((n+1)) id=${line#*'"id":'}
        echo '{"type":"answer","id":'"${id%%,*}"',"outcome":{"decision":"ask","reason":"call '"$n"'"}}'
      done
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	sandbox := process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		p.Env = append(p.Env, "SANDBOX=yes") // yours puts p.Args behind a real one
		return process.System.Run(ctx, p)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, scope := range []grapnel.Scope{grapnel.ScopeUser, grapnel.ScopePlugin} {
		var workers []*process.Worker
		set := load.Policies(load.Request{
			Files: []load.File{{Path: file, Scope: scope, Must: true}},
			Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook {
				run := process.Command{Name: c.Name, Line: c.Line, Args: c.Args, Title: c.Title, Dir: c.Dir, Env: c.Vars, Allow: c.Env, Executor: process.System}
				run.InDir = c.Scope == grapnel.ScopeProject || c.Worker // the trusted files are relative to this directory
				if run.Inherit = process.InheritFor(c.Scope); run.Inherit == process.InheritMinimal {
					run.Executor = sandbox
				}
				if c.Worker { // it stays, and answers all events
					w := &process.Worker{Command: run}
					w.Dialect = policy.DialectOf(&c).OfWorker()
					workers = append(workers, w)
					return w
				}
				if d := policy.DialectOf(&c); d != nil { // speaks:
					run.Dialect, run.Vars = d, d.HookEnv
				}
				return &run
			}},
		})
		engine, err := grapnel.New(set.Specs, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		for range 2 {
			verdict := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "ls"}})
			fmt.Println(scope, verdict.Decision, verdict.Reason())
		}

		err = engine.Close(ctx) // waits for hooks in the background
		for _, w := range workers {
			err = errors.Join(err, w.Close(ctx))
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// user ask call 1
	// user ask call 2
	// plugin block blocked by hook "who"
	// plugin block blocked by hook "who"
}
