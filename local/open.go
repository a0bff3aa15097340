// Package local loads the policies of this machine into one engine: managed policies, the user's
// policy, and the trusted policies of the agent's project.
//
//	engine, err := local.Open(ctx, &local.Options{CWD: dir})
//	if err != nil {
//		return err
//	}
//	defer engine.Close(ctx)
//	verdict := engine.Fire(ctx, event)
//
// grapnel-hook, the daemon and "grapnel explain" also use it, so the same policy gives the same
// verdict everywhere.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// maxDepth limits the nesting of hooks: a hook can start an agent that runs hooks.
const maxDepth = 3

// Options configure [Open]. The zero value opens the policies of the user and of the project
// in the working directory, and starts the programs of their hooks.
type Options struct {
	Root     string   // directory of policy and state; empty = the user's directories
	CWD      string   // working directory of the agent; empty = this process's working directory
	Policies []string // more policy files, relative to CWD; they need no trust

	Place *Place      // instead of Root
	Files []load.File // instead of CWD and Policies; see [Place.Files]

	// Runners run the hooks that leave the process. If Command is nil, Open uses one that starts programs, and
	// workers run until Close. If HTTP, Notify or Webhook is nil, hooks of this kind fail, so their
	// on_error decides.
	policy.Runners

	Observers []grapnel.Observer
	Counter   load.Counter // counts for limits; nil = in the state directory, shared with other agents

	// See [grapnel.Options].
	Approved   func(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval
	Background func(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error
	Stops      func(key string, again bool) (inARow int, err error)

	// Event, if it is not nil, is the only event that the engine will get. Hooks that it cannot
	// match are not loaded, which saves their time.
	Event *grapnel.Event

	// Loaded may change the set before Open builds the engine. If it returns an error, Open
	// fails.
	Loaded func(*load.Set) error

	// Settled is for callers that open an engine for each event, see [load.Request].
	Settled bool

	// For dry runs.
	Now      func() time.Time  // the clock of limits; nil = time.Now
	Content  map[string][]byte // content of policy files by path, instead of the files
	Unpaused bool              // ignore a pause

	// Unread leaves out the packs that always apply. Set it for an event that cannot be read:
	// only the user's guards then fail, and without such guards the event passes.
	Unread bool
}

// An Engine holds the policies of this machine. The caller must close it. host.New takes its field
// Engine.
type Engine struct {
	*grapnel.Engine

	Set   load.Set // the loaded policies, with diagnostics
	Place Place
	Root  string // root of the project; empty if Options had Files

	workers Workers
	closers []func(context.Context) error
}

// Open loads policies into an engine; opts may be nil. During a pause, hooks only observe. A
// policy with mistakes is not an error: see [load.Set].
func Open(ctx context.Context, opts *Options) (*Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	e := &Engine{}
	if err := e.locate(opts); err != nil {
		return nil, err
	}
	o := *opts
	if o.Files == nil {
		cwd := o.CWD
		if cwd == "" {
			var err error
			if cwd, err = os.Getwd(); err != nil {
				return nil, fmt.Errorf("local.Options.CWD: %w", err)
			}
		}
		e.Root = ProjectRoot(cwd)
		o.Files = e.Place.Files(absoluteIn(cwd, o.Policies), e.Place.DirsOf(cwd))
	}
	if o.Counter == nil {
		counter, err := spool.Open(e.Place.State, nil)
		if err != nil {
			return nil, err
		}
		o.Counter = counter
		e.closers = append(e.closers, func(context.Context) error { return counter.Close() })
	}
	if o.Command == nil {
		o.Command = func(c policyfile.Command) grapnel.Hook { return e.workers.Hook(e.Place, c) }
		e.closers = append(e.closers, e.workers.Close)
	}
	o.fail()
	e.Set = e.Place.load(&o)
	var err error
	if o.Loaded != nil {
		err = o.Loaded(&e.Set)
	}
	if err == nil {
		e.Engine, err = grapnel.New(e.Set.Specs, &grapnel.Options{Observers: o.Observers, Approved: o.Approved, Background: o.Background, Stops: o.Stops})
	}
	if err != nil {
		return nil, errors.Join(err, e.closeAll(ctx))
	}
	return e, nil
}

// Close waits for hooks that run in the background and ends workers. It does not close values
// that were given in Options.
func (e *Engine) Close(ctx context.Context) error {
	return errors.Join(e.Engine.Close(ctx), e.closeAll(ctx))
}

func (e *Engine) closeAll(ctx context.Context) error {
	var errs []error
	for _, c := range e.closers {
		errs = append(errs, c(ctx))
	}
	return errors.Join(errs...)
}

func (e *Engine) locate(opts *Options) (err error) {
	if opts.Place != nil {
		e.Place = *opts.Place
		return nil
	}
	if e.Place, err = Locate(opts.Root, ""); err != nil {
		return fmt.Errorf("local.Options.Root: %w", err)
	}
	return nil
}

// fail replaces nil constructors by ones that return failing hooks.
func (o *Options) fail() {
	missing := func(name, field string) grapnel.Hook {
		return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, fmt.Errorf("hook %q needs a server, but this program opened its policies without %s", name, field)
		})
	}
	if o.Webhook == nil {
		o.Webhook = func(w policyfile.Webhook) (grapnel.Hook, error) { return missing(w.Name, "local.Options.Webhook"), nil }
	}
	if o.HTTP == nil {
		o.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) { return missing(h.Name, "local.Options.HTTP"), nil }
	}
	if o.Notify == nil {
		o.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) { return missing(h.Name, "local.Options.Notify"), nil }
	}
}

func (p Place) load(o *Options) load.Set {
	req := request{p.Request(o.Files, o.Runners)}
	req.Counter, req.Now, req.Content, req.Event, req.Settled = o.Counter, o.Now, o.Content, o.Event, o.Settled
	if o.Unread {
		req.Always = nil
	}
	loose := req.loosely()
	set := load.Policies(req.Request)
	set.Specs = append(set.Specs, loose()...)
	off, err := pause.ReadOff(p.Off())
	if err != nil {
		set.Specs = append(set.Specs, notice.For(grapnel.Source{Name: "off", File: "off"}, "grapnel: "+err.Error()))
	}
	set.Specs = off.Apply(set.Specs)
	if pause, ok := pause.Read(p.Pause(), time.Now()); ok && !o.Unpaused {
		set.Specs = pause.Apply(set.Specs)
	}
	return set
}

func absoluteIn(dir string, names []string) []string {
	var all []string
	for _, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		all = append(all, name)
	}
	return all
}

// Runner returns a constructor of hooks that run programs. If hooks are nested too deeply, the
// programs fail and their on_error decides. Runner does not leave them out, because a project can
// set the environment variable that counts the depth.
func Runner(place Place) func(policyfile.Command) grapnel.Hook {
	depth := process.Depth()
	homeDir := sync.OnceValues(home.Dir)
	return func(c policyfile.Command) grapnel.Hook {
		if depth >= maxDepth {
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{}, fmt.Errorf("not started: hooks are nested deeper than %d (GRAPNEL_DEPTH)", maxDepth)
			})
		}
		var env []string
		if place.Path != "" { // installed: ignore the environment, because an agent's project settings can set it
			env = []string{"PATH=" + place.Path}
			if dir, err := homeDir(); err == nil {
				env = append(env, "HOME="+dir)
			}
		}
		cmd := &process.Command{
			// A pinned command refers to files in its project directory. A worker runs in the
			// directory of its policy.
			InDir: c.Scope == grapnel.ScopeProject || c.Worker,
			Name:  c.Name, Line: c.Line, Args: c.Args, Title: c.Title, Allow: c.Env, Dir: c.Dir, Env: append(env, c.Vars...), Inherit: process.InheritFor(c.Scope),
			Executor: executor(c.Sandbox, c.Dir), CommandDir: c.CommandDir,
		}
		if d := policy.DialectOf(&c); d != nil {
			cmd.Dialect, cmd.Vars = d, d.HookEnv
		}
		return cmd
	}
}
