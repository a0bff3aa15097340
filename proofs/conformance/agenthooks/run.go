package agenthooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
	"github.com/grapnel-dev/grapnel/host"
)

// Options are the declarations of our host. The zero value and nil mean the defaults.
type Options struct {
	Posture      agenthooks.Posture // empty = Continue
	Capabilities []string           // nil = every one that our host has
}

// untagged is the part name for vectors that name no part.
const untagged = "untagged"

// caseOf returns a vector as a case, whose kind is the part of the specification. It plays in a new
// environment. A vector that needs an undeclared capability is skipped.
func (o *Options) caseOf(v *vector) conformance.Case {
	c := conformance.Case{File: v.file, Play: func(ctx context.Context) ([]conformance.Diff, error) {
		if v.err != nil {
			return nil, v.err
		}
		declared := o.capabilities()
		if lacking := slices.DeleteFunc(slices.Clone(v.Capabilities), func(c string) bool { return slices.Contains(declared, c) }); len(lacking) > 0 {
			return nil, conformance.Skip("not declared: " + strings.Join(lacking, ", "))
		}
		return play(ctx, v, o.posture())
	}}
	c.ID, c.Name, c.Dialect, c.Kind = v.ID, v.Title, dialectName, cmp.Or(v.Part, untagged)
	return c
}

// dialectName is the dialect of all cases of this package.
const dialectName = "agent-hooks"

func (o *Options) posture() agenthooks.Posture {
	if o == nil {
		return agenthooks.Continue
	}
	return cmp.Or(o.Posture, agenthooks.Continue)
}

// capabilities returns the declared capabilities, in the specification's terms. Our host holds a
// response back until all of it has been judged or, if a vector requires it, judges and releases it
// piece by piece.
func (o *Options) capabilities() []string {
	if o != nil && o.Capabilities != nil {
		return o.Capabilities
	}
	return []string{
		"model_calls", "tool_calls", "int64_json", "bigint_json", "incremental_output",
		"parallel_tool_calls", "streaming", "multi_turn", "buffered_output",
	}
}

// play runs the agent of a vector: our own loop with a scripted model and scripted tools.
func play(ctx context.Context, v *vector, posture agenthooks.Posture) ([]conformance.Diff, error) {
	s := &stage{vector: v}
	hooks, err := s.hooks(posture)
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
	return s.compare(&got, posture), nil
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
