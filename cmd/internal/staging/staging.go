// Package staging puts policies on the stage of a replay: those in force here, a draft in the
// place of the user's own, or one of a revision of git.
package staging

import (
	"bytes"
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
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/records"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Replayed is what "grapnel replay --json" prints.
type Replayed struct {
	Policy  string `json:"policy"`
	Against string `json:"against,omitempty"` // empty = what was recorded
	*replay.Report
}

// Options say what is played and against what.
type Options struct {
	Place   local.Place
	Policy  string   // a file in the place of the user's own policy
	Against string   // another policy to compare with; empty = what was recorded
	Run     bool     // programs of hooks
	Ask     []string // servers, by the names of their hooks
}

// Play plays the Records of a source against a policy.
func Play(ctx context.Context, from *records.Source, o *Options) (*Replayed, error) {
	now := &stagedPolicy{place: o.Place, run: o.Run, ask: o.Ask, servers: &serverNames{}}
	opts := replay.Options{Wants: from.Filter.Wants}
	var err error
	if o.Policy != "" {
		if now, err = now.with(ctx, o.Policy, o.Policy); err != nil {
			return nil, err
		}
	}
	result := &Replayed{Policy: now.place.Policy, Against: o.Against}
	if len(from.Files) > 0 || o.Policy != "" || o.Against != "" {
		opts.StandIn = now.place.Policy
	}
	if opts.Policy, err = now.policy(from.Console, &opts); err != nil { //nolint:contextcheck // it only reads files
		return nil, err
	}
	if o.Against != "" {
		old, err := now.with(ctx, o.Against, now.place.Policy)
		if err != nil {
			return nil, err
		}
		if opts.Against, err = old.policy(from.Console, &opts); err != nil { //nolint:contextcheck // likewise
			return nil, err
		}
	}
	if result.Report, err = play(ctx, from, opts); errors.Is(err, errAcrossSessions) {
		opts.Workers = 1
		if slices.Contains(from.Files, "-") {
			return nil, cli.WithHint(err, "write the Records to a file, and name that")
		}
		result.Report, err = play(ctx, from, opts)
	}
	if err != nil {
		return nil, err
	}
	return result, now.servers.all(o.Ask)
}

// stagedPolicy is a policy that is played: what is in force at a place, or a content in the place
// of the user's own file there.
type stagedPolicy struct {
	place   local.Place
	content map[string][]byte
	run     bool     // programs
	ask     []string // servers, by the names of their hooks
	servers *serverNames
}

// serverNames are those of the hooks that ask one, in all policies that were played.
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

// all wants there to be hooks of these names. It is asked in the end: the policy of a project
// is read when the first event comes from there.
func (s *serverNames) all(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.names[name] {
			continue
		}
		hint := "no policy that was played has one"
		if known := slices.Sorted(maps.Keys(s.names)); len(known) > 0 {
			hint = "those that do are " + printable.Line(strings.Join(known, ", "))
		}
		return cli.Usage(cli.WithHint(fmt.Errorf("--ask %s: no hook of that name asks a server", printable.Line(name)), hint))
	}
	return nil
}

// with is the same with what a policy says, as if it stood at a path.
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
		return nil, cli.WithHint(fmt.Errorf("%d mistakes in the policy, the first: %w", len(errs), errs[0]), fmt.Sprintf("grapnel check %s", named))
	}
	other := *s
	other.place.Policy, other.content = abs, map[string][]byte{abs: content}
	return &other, nil
}

// readPolicy reads a file, or one in a revision of git.
func readPolicy(ctx context.Context, named string) ([]byte, error) {
	content, err := os.ReadFile(named)
	if err == nil {
		return append([]byte{}, content...), nil // not nil
	}
	if _, _, revision := strings.Cut(named, ":"); !revision || !errors.Is(err, os.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("cannot read the policy: %w", err), "name a file, or REVISION:PATH as git has it")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "show", "--no-textconv", "--end-of-options", named)
	cmd.Stderr = &said
	if content, err = cmd.Output(); err != nil {
		return nil, cli.WithHint(fmt.Errorf("there is no file %s, and git does not have it: %s", named, gitError(said.String(), err)), "name a file, or REVISION:PATH as git has it: main:grapnel.yaml, HEAD~3:./grapnel.yaml")
	}
	return append([]byte{}, content...), nil
}

func gitError(said string, err error) string {
	if said = printable.Line(strings.TrimSpace(said)); said != "" {
		return said
	}
	return err.Error()
}

// policy makes what opens the policy. Where it counts what happens in several sessions
// together, no two of them are played at once.
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
	if policy.AcrossSessions(set.Specs) {
		opts.Workers = 1
	}
	return func(stage *replay.Stage) func(*grapnel.Event) (*grapnel.Engine, error) {
		return (&projects{stagedPolicy: s, opts: opts, stage: stage, engines: map[string]*grapnel.Engine{}, places: map[string]project{}}).judge
	}, nil
}

// errAcrossSessions says that a policy of a project counts what happens in several sessions, which
// only shows when its first event comes.
var errAcrossSessions = errors.New("a project's policy counts what happens in several sessions together, so that these have to be played in turn")

// open loads the policies for who works in some directories.
func (s *stagedPolicy) open(dirs []local.Dir, stage *replay.Stage) (*grapnel.Engine, *policy.Set, error) {
	run := local.Runner(s.place)
	var set policy.Set
	opts := &local.Options{
		Command: func(cmd policyfile.Command) grapnel.Hook {
			if s.run && !cmd.Async {
				return run(cmd)
			}
			return stage.Told(cmd.Name)
		},
		HTTP: func(h policyfile.HTTP) (grapnel.Hook, error) {
			if s.servers != nil {
				s.servers.add(h.Name)
			}
			if slices.Contains(s.ask, h.Name) && !h.Async {
				return hookcmd.Asker(stage.Counter(), h, func() []string { return set.Networks }), nil
			}
			return stage.Told(h.Name), nil
		},
		Webhook:   func(hookfiles.Webhook) (grapnel.Hook, error) { return grapnel.Func(nil), nil }, // an observer, and none is run
		Notify:    func(policyfile.HTTP) (grapnel.Hook, error) { return grapnel.Func(nil), nil },   // likewise
		Observers: []grapnel.Observer{stage}, Background: stage,
		Counter: stage.Counter(), Now: stage.Now, Content: s.content, Unpaused: true,
	}
	opts.Place, opts.Files = &s.place, s.place.Files(nil, dirs)
	opened, err := local.Open(context.Background(), opts)
	if err != nil {
		return nil, nil, err
	}
	set = opened.Set
	for _, file := range set.Files {
		if s.content[file.File] != nil && file.State != policy.Valid {
			return nil, nil, cli.WithHint(fmt.Errorf("the policy cannot be played: %w", file.Errors[0]), "grapnel check "+file.File)
		}
	}
	return opened.Engine, &set, nil
}

// play plays the Records.
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
