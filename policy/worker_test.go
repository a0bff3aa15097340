package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A worker has all settings of a program, and the function that makes its hook sees that it may
// be kept running. A function without that feature starts it for each event, in its dialect.
func TestWorker(t *testing.T) {
	t.Parallel()
	const text = `
version: 1
defaults: {timeout: 3s}
hooks:
  - {name: list, on: tool.before, worker: [python3, guard.py], env: TOKEN, on_error: closed}
  - {name: line, on: tool.after, worker: exec ./guard, async: true, timeout: 1s}
  - {name: once, on: tool.before, run: ./guard}
`
	p, errs := policy.Parse("grapnel.yaml", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var made []policyfile.Command
	specs, err := policy.Build(p, fixture.Source("/p/grapnel.yaml"), func(c policyfile.Command) grapnel.Hook {
		if (c.CommandDir == nil) != c.Worker {
			t.Errorf("%s: a program gets the directory of the command, a worker does not", c.Name)
		}
		c.CommandDir = nil
		made = append(made, c)
		return noop.Hook{}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []policyfile.Command{
		{Name: "list", Args: []string{"python3", "guard.py"}, Env: []string{"TOKEN"}, Worker: true, Dir: "/p"},
		{Name: "line", Line: "exec ./guard", Async: true, Worker: true, Dir: "/p"},
		{Name: "once", Line: "./guard", Dir: "/p"},
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i, once := range []bool{true, true, false} {
		if d := policy.DialectOf(&made[i]); (d != nil) != once || once && !d.IsOnce() {
			t.Errorf("%s speaks %+v", made[i].Name, policy.DialectOf(&made[i]))
		}
	}
	if s := specs[0]; s.Timeout != 3*time.Second || s.OnError != grapnel.OnErrorClosed || s.Phase != grapnel.PhaseStep {
		t.Errorf("%+v", s)
	}
	if s := specs[1]; s.Timeout != time.Second || s.Phase != grapnel.PhaseObserve {
		t.Errorf("%+v", s)
	}
}

// TestProgramsHaveATimeout checks the default of a policy file: a program has 10 s, in contrast to a
// program in a caller's own Spec, and a rule runs inline.
func TestProgramsHaveATimeout(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("grapnel.yaml", []byte(`
version: 1
hooks:
  - {name: run, on: tool.before, run: ./guard}
  - {name: worker, on: tool.before, worker: ./guard}
  - {name: rule, on: tool.before, match: {command: rm}, block: no}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, fixture.Source("/p/grapnel.yaml"), fixture.NoCommand)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{10 * time.Second, 10 * time.Second, 0} {
		if specs[i].Timeout != want {
			t.Errorf("%s: timeout %v, want %v", specs[i].Name, specs[i].Timeout, want)
		}
	}
}
