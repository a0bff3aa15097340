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

// Capabilities returns the capabilities of our host, in the specification's terms. The host
// holds a response back until all of it has been judged or, if a vector requires it, judges and
// releases it piece by piece.
func Capabilities() []string {
	return []string{
		"model_calls", "tool_calls", "int64_json", "bigint_json", "incremental_output",
		"parallel_tool_calls", "streaming", "multi_turn", "buffered_output",
	}
}

// Options configure a run of vectors. The zero value and nil mean the defaults.
type Options struct {
	Only         *regexp.Regexp     // vectors to run, matched by id; nil = all
	Posture      agenthooks.Posture // declared posture; empty = Continue
	Capabilities []string           // declared capabilities; nil = Capabilities()
	Deadline     time.Duration      // time limit for one vector; 0 = 30 s
}

// Status is the result of one vector: passed, failed or skipped.
type Status string

// The values of Status.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // the vector needs an undeclared capability
)

// A Result is the result of one vector or one golden identity.
type Result struct {
	ID     string `json:"id"`
	Title  string `json:"title,omitempty"`
	Part   string `json:"part"`
	Status Status `json:"status"`
	Skip   string `json:"skip,omitempty"`  // if skipped: the reason
	Law    string `json:"law,omitempty"`   // if passed: our deliberate difference
	Error  string `json:"error,omitempty"` // if failed: why there is nothing to compare
	Diffs  []Diff `json:"diffs,omitempty"` // if failed: the differences
	File   string `json:"file,omitempty"`
}

// A Diff is one difference between the result and the expectation.
type Diff struct {
	Path string `json:"path"`
	Got  any    `json:"got"`
	Want any    `json:"want"`
}

// untagged is the part name for vectors that name no part.
const untagged = "untagged"

// Run runs vectors one after the other, each in a new environment.
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

// try runs a vector and compares the result. It abandons a vector that hangs or panics.
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

// play runs the agent of a vector: our own loop with a scripted model and scripted tools.
func (o *Options) play(ctx context.Context, v *Vector) ([]Diff, error) {
	s := &stage{vector: v}
	hooks, err := s.hooks(o.Posture)
	if err != nil {
		return nil, err
	}
	tools, registered := s.tools()
	h := host.New(hooks, &host.Options{
		Agent: grapnel.Agent{Name: "conformance"}, Tools: registered,
		ShowMessage: func(context.Context, string) {},
		Incremental: slices.Contains(v.Capabilities, "incremental_output"),
	})
	loop := &host.Loop{
		Provider: s.model(), Name: "scripted", Tools: tools,
		Show: func(_ context.Context, piece string) error {
			s.released.WriteString(piece)
			return nil
		},
		Store: func(_ context.Context, m host.ChatMessage) error {
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
		answer, err := loop.Run(ctx, host.ChatMessage{Role: input.Role, Content: input.Content})
		got.outcome = string(answer.Status)
		cause := "error"
		if answer.Status == host.StatusCompleted && err == nil {
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
	if together { // parallel calls arrive in any order, so sort by sequence
		slices.SortStableFunc(s.seen, func(a, b any) int { return cmp.Compare(sequenceOf(a), sequenceOf(b)) })
	}
	if len(s.broken) > 0 {
		return nil, errors.New(strings.Join(s.broken, "; "))
	}
	return s.compare(&got, o.Posture), nil
}

// ran is the outcome and the output of the agent's run.
type ran struct {
	outcome string
	output  any // nil = no output
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

// persisted returns all data that remains after the run, as text.
func (s *stage) persisted() string {
	return compact(map[string]any{"messages": s.stored, "records": plain(s.records)})
}
