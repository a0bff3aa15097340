package agenthooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/host/agenthooks"
)

// Capabilities returns what our host can do, in the specification's words. A response is
// either held back until all of it was judged or, where a vector wants that, judged and
// released piece by piece.
func Capabilities() []string {
	return []string{
		"model_calls", "tool_calls", "int64_json", "bigint_json", "incremental_output",
		"parallel_tool_calls", "streaming", "multi_turn", "buffered_output",
	}
}

// Options are how vectors are run. The zero value is the default, and nil is fine.
type Options struct {
	Only         *regexp.Regexp     // which run, by id; nil = all
	Posture      agenthooks.Posture // the one that is declared; empty = Continue
	Capabilities []string           // those that are declared; nil = Capabilities
	Deadline     time.Duration      // of one vector; 0 = 30 s
}

// Status is what became of a vector.
type Status string

// What can become of one.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it needs what is not declared
)

// A Result says what became of one vector, or of one golden identity.
type Result struct {
	ID     string `json:"id"`
	Title  string `json:"title,omitempty"`
	Part   string `json:"part"`
	Status Status `json:"status"`
	Skip   string `json:"skip,omitempty"`  // of a skipped one: why
	Law    string `json:"law,omitempty"`   // of a passed one: how we differ on purpose
	Error  string `json:"error,omitempty"` // of a failed one: why there is nothing to compare
	Diffs  []Diff `json:"diffs,omitempty"` // of a failed one: what came out otherwise
	File   string `json:"file,omitempty"`
}

// A Diff is one thing that came out otherwise.
type Diff struct {
	Path string `json:"path"`
	Got  any    `json:"got"`
	Want any    `json:"want"`
}

// untagged is the part of vectors that name none.
const untagged = "untagged"

// Run runs vectors, one after the other, each in a world of its own.
func Run(ctx context.Context, vectors []Vector, opts *Options) []Result {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Posture == "" {
		o.Posture = agenthooks.Continue
	}
	if o.Capabilities == nil {
		o.Capabilities = Capabilities()
	}
	if o.Deadline <= 0 {
		o.Deadline = 30 * time.Second
	}
	var results []Result
	for i := range vectors {
		if o.Only == nil || o.Only.MatchString(vectors[i].ID) {
			results = append(results, o.run(ctx, &vectors[i]))
		}
	}
	return results
}

func (o *Options) run(ctx context.Context, v *Vector) Result {
	r := Result{ID: v.ID, Title: v.Title, Part: v.Part, File: v.file, Status: Passed}
	if r.Part == "" {
		r.Part = untagged
	}
	lacking := slices.DeleteFunc(slices.Clone(v.Capabilities), func(c string) bool { return slices.Contains(o.Capabilities, c) })
	if v.err == nil && len(lacking) > 0 {
		r.Status, r.Skip = Skipped, "not declared: "+strings.Join(lacking, ", ")
		return r
	}
	diffs, err := o.try(ctx, v)
	if err != nil {
		r.Status, r.Error = Failed, err.Error()
	}
	if len(diffs) > 0 {
		r.Status, r.Diffs = Failed, diffs
	}
	return r
}

// try runs a vector and compares. One that hangs or panics is left behind.
func (o *Options) try(ctx context.Context, v *Vector) ([]Diff, error) {
	if v.err != nil {
		return nil, v.err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	type ending struct {
		diffs []Diff
		err   error
	}
	done := make(chan ending, 1)
	go func() {
		end := ending{err: errors.New("it ended its goroutine")}
		defer func() {
			if r := recover(); r != nil {
				end.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
			done <- end
		}()
		end.diffs, end.err = o.play(ctx, v)
	}()
	select {
	case end := <-done:
		return end.diffs, end.err
	case <-ctx.Done():
		return nil, fmt.Errorf("it did not end within %v: %w", o.Deadline, context.Cause(ctx))
	}
}

// play runs the agent of a vector: our own loop, with a model and tools that are
// scripted.
func (o *Options) play(ctx context.Context, v *Vector) ([]Diff, error) {
	s := &stage{vector: v}
	hooks, err := s.hooks(o.Posture)
	if err != nil {
		return nil, err
	}
	tools, registered := s.tools()
	h := host.New(hooks, &host.Options{
		Agent: grapnel.Agent{Name: "conformance"}, Tools: registered,
		Tell:        func(context.Context, string) {},
		Incremental: slices.Contains(v.Capabilities, "incremental_output"),
	})
	loop := &host.Loop{
		Provider: s.model(), Name: "scripted", Tools: tools,
		Show: func(_ context.Context, piece string) error {
			s.released.WriteString(piece)
			return nil
		},
		Store: func(_ context.Context, m host.Message) error {
			s.stored = append(s.stored, plain(m))
			return nil
		},
	}
	together := slices.Contains(v.Capabilities, "parallel_tool_calls")
	if together {
		loop.Parallel = 4
	}
	got := ran{outcome: "blocked"}
	ctx, session, _, err := h.Start(ctx, grapnel.Session{ID: "session-1", Model: "scripted"}, "startup")
	if err == nil {
		input := v.Scenario.Input.v
		answer, err := loop.Run(ctx, host.Message{Role: input.Role, Content: input.Content})
		got.outcome = string(answer.Outcome)
		cause := "error"
		if answer.Outcome == host.Completed && err == nil {
			cause = "completed"
			if got.output, err = tree(answer.Content); err != nil {
				return nil, fmt.Errorf("the answer is not JSON: %w", err)
			}
		}
		session.End(ctx, cause)
	} else if host.Refused(err) == nil {
		return nil, err
	}
	if err := h.Close(ctx); err != nil {
		return nil, err
	}
	if together { // then they come in any order, and have to be in one
		slices.SortStableFunc(s.seen, func(a, b any) int { return cmp.Compare(sequenceOf(a), sequenceOf(b)) })
	}
	if len(s.broken) > 0 {
		return nil, errors.New(strings.Join(s.broken, "; "))
	}
	return s.compare(&got, o.Posture), nil
}

// ran is how the agent ended.
type ran struct {
	outcome string
	output  any // nil = none
}

func (s *stage) hooks(posture agenthooks.Posture) (*agenthooks.Hooks, error) {
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	var c agenthooks.Composition
	if own := s.vector.Composition; own != nil {
		c = agenthooks.Composition{
			Profile:    agenthooks.Profile(own.Profile),
			OnApproval: agenthooks.Knob(own.OnApproval), OnDisagreement: agenthooks.Knob(own.OnDisagreement),
			OnTransformConflict: agenthooks.Knob(own.OnTransformConflict),
		}
	}
	return agenthooks.New(&agenthooks.Options{
		Interceptors: s.interceptors(), Composition: c, Mode: agenthooks.Mode(s.vector.Mode), Posture: posture, Identity: provider,
		Resolve: s.resolver(), Redact: s.redactor(),
		Records: func(_ context.Context, r *agenthooks.Record) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.records = append(s.records, r)
		},
	})
}

// persisted is all that outlives the agent, as text.
func (s *stage) persisted() string {
	return compact(map[string]any{"messages": s.stored, "records": plain(s.records)})
}
