// Package staging loads policies for a replay: the active policies, a draft instead of the user's
// policy, or a policy from a revision of git.
package staging

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Replayed is the output of "grapnel replay --json".
type Replayed struct {
	Policy  string `json:"policy"`
	Against string `json:"against,omitempty"` // empty = the recorded results
	*replay.Report
}

// Options are the options of [Play].
type Options struct {
	Place   local.Place
	Policy  string   // a file to use instead of the user's policy, or of Managed
	Managed string   // path of the managed policy that Policy and Against replace; it need not exist; empty = the user's policy
	Against string   // another policy to compare with; empty = the recorded results
	Run     bool     // run the programs of hooks
	Ask     []string // names of the hooks whose servers are contacted
}

// Play re-evaluates the Records of a source against a policy.
func Play(ctx context.Context, from *records.Source, o *Options) (*Replayed, error) {
	now := &stagedPolicy{place: o.Place, managed: o.Managed, run: o.Run, ask: o.Ask, servers: &serverNames{}}
	opts := replay.Options{Wants: from.Filter.Wants}
	var err error
	if o.Policy != "" {
		if now, err = now.with(ctx, o.Policy, o.Policy); err != nil {
			return nil, err
		}
	}
	result := &Replayed{Policy: now.place.Policy, Against: o.Against}
	if len(from.Files) > 0 || o.Policy != "" || o.Against != "" {
		opts.StandIn = cmp.Or(o.Managed, now.place.Policy)
	}
	if opts.Policy, err = now.policy(from.Console, &opts); err != nil {
		return nil, err
	}
	if o.Against != "" {
		old, err := now.with(ctx, o.Against, now.place.Policy)
		if err != nil {
			return nil, err
		}
		if opts.Against, err = old.policy(from.Console, &opts); err != nil {
			return nil, err
		}
	}
	if result.Report, err = play(ctx, from, opts); errors.Is(err, errAcrossSessions) {
		opts.Workers = 1
		if slices.Contains(from.Files, "-") {
			return nil, cli.WithHint(err, "write the Records to a file, and pass its name")
		}
		result.Report, err = play(ctx, from, opts)
	}
	if err != nil {
		return nil, err
	}
	return result, now.servers.all(o.Ask)
}

// stagedPolicy is a policy for a replay: the active policies of a place, with the contents of
// some files replaced.
type stagedPolicy struct {
	place   local.Place
	managed string // see Options
	content map[string][]byte
	run     bool     // run programs
	ask     []string // names of the hooks whose servers are contacted
	servers *serverNames
}

// serverNames collects the names of hooks that ask a server, in all loaded policies. It is safe
// for concurrent use.
type serverNames struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *serverNames) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

// all returns an error if one of the names is not the name of such a hook. Call it at the end: a
// project's policy is loaded at the first event of the project.
func (s *serverNames) all(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.names[name] {
			continue
		}
		hint := "the policies have no such hook"
		if known := slices.Sorted(maps.Keys(s.names)); len(known) > 0 {
			hint = "hooks that ask a server: " + printable.Line(strings.Join(known, ", "))
		}
		return cli.Usage(cli.WithHint(fmt.Errorf("--ask %s: no hook with this name asks a server", printable.Line(name)), hint))
	}
	return nil
}

// with returns a copy of s in which the policy named is the user's policy, with the path at.
func (s *stagedPolicy) with(ctx context.Context, named, at string) (*stagedPolicy, error) {
	abs, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	content, err := readPolicy(ctx, named)
	if err != nil {
		return nil, err
	}
	if _, errs := policy.Parse(named, content); len(errs) > 0 {
		return nil, cli.WithHint(fmt.Errorf("%d errors in the policy, the first: %w", len(errs), errs[0]), fmt.Sprintf("grapnel check %s", named))
	}
	other := *s
	if s.managed != "" {
		other.content = map[string][]byte{s.managed: content}
		return &other, nil
	}
	other.place.Policy, other.content = abs, map[string][]byte{abs: content}
	return &other, nil
}

// readPolicy reads a file, or a file in a revision of git.
func readPolicy(ctx context.Context, named string) ([]byte, error) {
	content, err := os.ReadFile(named)
	if err == nil {
		return append([]byte{}, content...), nil // an empty file is not nil
	}
	if _, _, revision := strings.Cut(named, ":"); !revision || !errors.Is(err, os.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("cannot read the policy: %w", err), "use a file name, or REVISION:PATH of git")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "show", "--no-textconv", "--end-of-options", named)
	cmd.Stderr = &stderr
	if content, err = cmd.Output(); err != nil {
		return nil, cli.WithHint(fmt.Errorf("file %s not found, also not in git: %s", named, gitError(stderr.String(), err)), "use a file name, or REVISION:PATH of git: main:grapnel.yaml, HEAD~3:./grapnel.yaml")
	}
	return append([]byte{}, content...), nil
}

func gitError(stderr string, err error) string {
	if stderr = printable.Line(strings.TrimSpace(stderr)); stderr != "" {
		return stderr
	}
	return err.Error()
}

// policy returns a function that opens the policy for a stage. If the policy counts events across
// sessions, it limits the replay to one worker.
func (s *stagedPolicy) policy(c *cli.Console, opts *replay.Options) (replay.Policy, error) {
	_, set, err := s.open(nil, &replay.Stage{})
	if err != nil {
		return nil, err
	}
	for _, file := range set.Files {
		if file.Notice != "" {
			c.Warn(errors.New(file.Notice))
		}
	}
	if state.AcrossSessions(set.Specs) {
		opts.Workers = 1
	}
	return func(stage *replay.Stage) func(*grapnel.Event) (*grapnel.Engine, error) {
		return (&projects{stagedPolicy: s, opts: opts, stage: stage, engines: map[string]*grapnel.Engine{}, places: map[string]project{}}).judge
	}, nil
}

// errAcrossSessions is the error for a project policy that counts events across sessions. Play
// finds such a policy only at the first event of its project.
var errAcrossSessions = errors.New("a project's policy counts events of several sessions together, so these sessions must be replayed in sequence")

// open loads the policies that apply in the given directories.
func (s *stagedPolicy) open(dirs []local.Dir, stage *replay.Stage) (*grapnel.Engine, *load.Set, error) {
	run := local.Runner(s.place)
	var set load.Set
	opts := &local.Options{
		Runners: dryrun.Runners(func(c dryrun.Call) (grapnel.Hook, error) {
			switch {
			case c.Server != nil && s.servers != nil:
				s.servers.add(c.Name)
			case c.Observes():
				return nil, nil // observers do not run
			}
			switch {
			case c.Program != nil && s.run && !c.Program.Async:
				return run(*c.Program), nil
			case c.Server != nil && slices.Contains(s.ask, c.Name) && !c.Server.Async:
				return hookcmd.Asker(stage.Counter(), *c.Server, func() policyfile.Reach { return set.Reach }), nil
			}
			return stage.ReplayHook(c.Name), nil
		}),
		Observers: []grapnel.Observer{stage}, Background: stage.Run, Approved: stage.Find,
		Counter: stage.Counter(), Now: stage.Now, Content: s.content, Unpaused: true,
	}
	opts.Place, opts.Files = &s.place, s.files(dirs)
	opened, err := local.Open(context.Background(), opts)
	if err != nil {
		return nil, nil, err
	}
	set = opened.Set
	for _, file := range set.Files {
		if s.content[file.File] != nil && file.State != load.Valid {
			return nil, nil, cli.WithHint(fmt.Errorf("cannot replay the policy: %w", file.Errors[0]), "grapnel check "+file.File)
		}
	}
	return opened.Engine, &set, nil
}

// files lists the files that apply in the given directories.
func (s *stagedPolicy) files(dirs []local.Dir) []load.File {
	files := s.place.Files(nil, dirs)
	if s.content[s.managed] == nil || slices.ContainsFunc(files, func(f load.File) bool { return f.Path == s.managed }) {
		return files
	}
	return append([]load.File{{Path: s.managed, Scope: grapnel.ScopeManaged, Must: true}}, files...)
}

// play replays the Records.
func play(ctx context.Context, r *records.Source, opts replay.Options) (*replay.Report, error) {
	records, end, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var erase func()
	opts.Progress, erase = r.Progress("replaying")
	defer erase()
	return replay.Play(ctx, records, opts)
}
