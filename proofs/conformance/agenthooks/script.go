package agenthooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/host"
)

// A stage is the environment of one vector: the scripted parts around the loop, and the
// observations.
type stage struct {
	vector *vector

	mu       sync.Mutex
	seen     []any // contexts that the first interceptor received
	records  []*agenthooks.Record
	calls    []invocation // calls that reached a tool
	asked    int          // number of calls of the model
	released strings.Builder
	stored   []any
	broken   []string // events that the script does not expect
}

func (s *stage) breaks(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
	return errors.New(s.broken[len(s.broken)-1])
}

// interceptors returns one interceptor per script.
func (s *stage) interceptors() []agenthooks.Interceptor {
	var all []agenthooks.Interceptor
	for i, script := range s.vector.scripts() {
		all = append(all, agenthooks.Interceptor{Judge: func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
			seen, err := tree(raw)
			if err != nil {
				return nil, s.breaks("interceptor %d got invalid JSON: %v", i, err)
			}
			if i == 0 {
				s.mu.Lock()
				s.seen = append(s.seen, seen)
				s.mu.Unlock()
			}
			return answer(script, seen, raw)
		}})
	}
	return all
}

// answer returns the reply of the first rule that applies.
func answer(script []rule, seen any, raw json.RawMessage) (json.RawMessage, error) {
	for i := range script {
		r := &script[i]
		if name, _ := find(seen, "interception_point"); name != r.At || !matches(seen, r.Match) {
			continue
		}
		switch r.Fault {
		case faultRaise:
			return nil, errors.New("scripted fault")
		case faultMalformed:
			return json.RawMessage(`{"decision":"transform"}`), nil
		case faultMutate:
			return mutate(raw), nil
		}
		return r.Return, nil
	}
	return json.RawMessage(`{"decision":"allow"}`), nil
}

// mutate overwrites the interceptor's copy of the context, as a careless interceptor might.
func mutate(raw json.RawMessage) json.RawMessage {
	const tampered = `{"target":"TAMPERED","tool_call":{"args":{"tampered":true}}}`
	for i := range raw {
		raw[i] = ' '
	}
	copy(raw, tampered)
	return json.RawMessage(`{"decision":"allow","reason":"ctk:mutated"}`)
}

// resolver returns a Resolver that answers requests from the vector's script, or nil if the
// vector has no approvals.
func (s *stage) resolver() agenthooks.Resolver {
	if len(s.vector.Approvals) == 0 {
		return nil
	}
	return func(_ context.Context, r *agenthooks.Request) (agenthooks.Resolution, error) {
		shown, err := tree(r.Context)
		if err != nil {
			return agenthooks.Resolution{}, s.breaks("the resolver got invalid JSON: %v", err)
		}
		for i := range s.vector.Approvals {
			if a := &s.vector.Approvals[i]; matches(shown, a.Match) {
				return a.resolution(r)
			}
		}
		return agenthooks.Resolution{Outcome: agenthooks.Unresolved, ContextIdentity: r.ContextIdentity}, nil
	}
}

func (a *approval) resolution(r *agenthooks.Request) (agenthooks.Resolution, error) {
	how := a.Resolve.v
	if how.Fault == faultRaise {
		return agenthooks.Resolution{}, errors.New("scripted fault")
	}
	// The members next to the outcome are accepted on both levels.
	if how.Verdict == nil {
		how.Verdict = a.Verdict
	}
	if how.IdentityOverride == nil {
		how.IdentityOverride = a.IdentityOverride
	}
	echo := r.ContextIdentity
	if how.IdentityOverride != nil {
		echo = how.IdentityOverride
	}
	if how.EchoRecomputed || a.EchoRecomputed {
		own, err := agenthooks.JCS().Identify(r.Context)
		if err != nil {
			own = ""
		}
		echo = &own
	}
	return agenthooks.Resolution{Outcome: agenthooks.Resolved(how.Outcome), ContextIdentity: echo, Verdict: how.Verdict}, nil
}

// redactor returns a Redactor that removes the paths the vector lists, or nil if it lists none.
func (s *stage) redactor() agenthooks.Redactor {
	if len(s.vector.Redact) == 0 {
		return nil
	}
	return func(raw json.RawMessage) (json.RawMessage, []string, error) {
		shown, err := tree(raw)
		if err != nil {
			return nil, nil, s.breaks("the redactor got invalid JSON: %v", err)
		}
		point, _ := find(shown, "interception_point")
		name, _ := point.(string)
		var removed []string
		for _, path := range s.vector.Redact {
			inner := inTarget(path, twins[name])
			done := false
			for _, root := range []string{"target", twins[name]} {
				whole := join(root, inner)
				if _, has := find(shown, whole); has {
					shown, done = store(shown, whole, "[redacted]"), true
				}
			}
			if done {
				removed = append(removed, join("$target", inner))
			}
		}
		return json.RawMessage(compact(shown)), removed, nil
	}
}

var quotedName = regexp.MustCompile(`\["([A-Za-z0-9_-]+)"\]`)

// inTarget returns a path relative to the target. The given path may start with a transform's
// root, with a context's root, or with no root.
func inTarget(path, twin string) string {
	path = quotedName.ReplaceAllString(path, ".$1")
	for _, root := range []string{"$target", "$policy_target", "target", twin} {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return strings.TrimPrefix(rest, ".")
		}
	}
	return path
}

func join(root, inner string) string {
	if inner == "" || inner[0] == '[' {
		return root + inner
	}
	return root + "." + inner
}

// provider returns the identity provider that the vector names.
func (s *stage) provider() (*agenthooks.Provider, error) {
	switch text := string(s.vector.IdentityProvider); text {
	case "", `"jcs-sha256"`:
		return agenthooks.JCS(), nil
	case "null":
		return agenthooks.Unbound(), nil
	case `"ctk-fault"`:
		return &agenthooks.Provider{Name: "ctk-fault", Identify: func(json.RawMessage) (string, error) {
			return "", errors.New("scripted fault")
		}}, nil
	default:
		return nil, fmt.Errorf("unknown identity_provider %s", text)
	}
}

// model returns a provider that gives the script's answers, one per call.
func (s *stage) model() host.Provider {
	script := s.vector.Scenario.Script
	return host.ProviderFunc(func(_ context.Context, _ *host.Request, yield func(string) error) (*host.Response, error) {
		s.mu.Lock()
		n := s.asked
		s.asked++
		s.mu.Unlock()
		if n >= len(script) {
			return nil, s.breaks("the model was called %d times, and the script has %d answers", n+1, len(script))
		}
		r := &script[n].v.Respond
		for _, piece := range r.Stream {
			if err := yield(piece); err != nil {
				return nil, err
			}
		}
		response := &host.Response{Content: r.Content, FinishReason: r.FinishReason}
		for _, c := range r.ToolCalls {
			response.ToolCalls = append(response.ToolCalls, host.ToolCall{ID: c.ID, Name: c.Name, Args: c.Args})
		}
		if r.Truncated {
			response.FinishReason = host.FinishIncomplete
		}
		return response, nil
	})
}

// tools returns the tools of the loop and the tools registered with the host. The loop also gets
// the tools that the model calls but the scenario does not define; a call of one is an error.
func (s *stage) tools() (tools []host.AgentTool, registered []host.ToolInfo) {
	known := map[string]bool{}
	for _, t := range s.vector.Scenario.Tools {
		known[t.v.Name] = true
		tools = append(tools, host.AgentTool{
			ToolInfo: host.ToolInfo{Name: t.v.Name},
			Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
				return s.run(&t.v, input)
			},
		})
	}
	registered = host.Infos(tools)
	for _, answer := range s.vector.Scenario.Script {
		for _, c := range answer.v.Respond.ToolCalls {
			if known[c.Name] {
				continue
			}
			known[c.Name] = true
			tools = append(tools, host.AgentTool{
				ToolInfo: host.ToolInfo{Name: c.Name},
				Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					return nil, s.breaks("the scenario has no tool %q", c.Name)
				},
			})
		}
	}
	return tools, registered
}

// run applies the first behavior clause that matches the arguments.
func (s *stage) run(t *tool, input json.RawMessage) (json.RawMessage, error) {
	args, err := tree(input)
	if err != nil {
		return nil, s.breaks("tool %q got invalid JSON: %v", t.Name, err)
	}
	s.mu.Lock()
	s.calls = append(s.calls, invocation{t.Name, slices.Clone(input)})
	s.mu.Unlock()
	for _, b := range t.Behavior {
		switch {
		case b.When != nil && !equalRaw(b.When, args):
		case b.IsError:
			return nil, &host.ToolError{Output: b.Return}
		default:
			return b.Return, nil
		}
	}
	return nil, s.breaks("tool %q has no behavior for the input %s", t.Name, input)
}
