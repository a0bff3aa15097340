package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	mc "github.com/grapnel-dev/grapnel/systems/miniclaw"
)

func newMiniclawNames(b *bench) namesake { return &miniclawNames{b, mc.NewHookRegistry()} }

// miniclawNames runs hooks through package miniclaw.
type miniclawNames struct {
	bench    *bench
	registry *mc.HookRegistry
}

func (n *miniclawNames) engine() *grapnel.Engine { return n.registry.Engine() }

// namedHook is a hook with the name that it has in a case.
type namedHook struct {
	mc.Hook
	name string
}

// Name returns the name.
func (h namedHook) Name() string { return h.name }

func (n *miniclawNames) register(def *hookDef, _ []grapnel.Kind) (name string, ok bool, err error) {
	hook, err := n.hook(def)
	if err == nil {
		err = n.registry.Register(hook)
	}
	if err != nil {
		if def.Matcher != nil {
			err = fmt.Errorf("%w: %w", errMatcher, err)
		}
		return "", true, err
	}
	specs := n.registry.Engine().Specs("")
	return specs[len(specs)-1].Name, true, nil
}

func (n *miniclawNames) hook(def *hookDef) (mc.Hook, error) {
	w := &watched{bench: n.bench, def: def}
	switch def.Kind {
	case "func":
		var does behaviour
		if err := errors.Join(w.decode(&does), does.check()); err != nil {
			return nil, err
		}
		return namedHook{mc.HookFunc(func(_ context.Context, event mc.Event) mc.Action {
			return n.run(&does, event)
		}), def.Name}, nil
	case "builtin":
		var does shippedHook
		if err := w.decode(&does); err != nil {
			return nil, err
		}
		switch does.Name {
		case "logging":
			log := mc.NewLoggingHook()
			n.bench.mu.Lock()
			n.bench.logs[def.Name] = log
			n.bench.mu.Unlock()
			return namedHook{log, def.Name}, nil
		case "blocking":
			return namedHook{mc.NewBlockingHook(does.Tools, does.Reason), def.Name}, nil
		default:
			return nil, fmt.Errorf("unknown builtin %q", does.Name)
		}
	case "command":
		var does program
		if err := w.decode(&does); err != nil {
			return nil, err
		}
		line, err := does.line(n.bench)
		if err != nil {
			return nil, err
		}
		shell := mc.NewShellHook(line)
		if def.Matcher != nil {
			shell = shell.ForTool(def.Matcher.Glob)
		}
		return shell, nil
	default:
		return nil, fmt.Errorf("%w: hook kind %q", errNotExpressible, def.Kind)
	}
}

// run executes a case, and panics where the hook must fail: a hook has no error.
func (n *miniclawNames) run(does *behaviour, event mc.Event) mc.Action {
	ev := &grapnel.Event{}
	switch e := event.(type) {
	case mc.AgentStart:
		ev.Kind, ev.Prompt = grapnel.AgentBefore, &grapnel.Prompt{Text: e.Prompt}
	case mc.PreToolCall:
		ev.Kind, ev.Tool = grapnel.ToolBefore, &grapnel.Tool{Name: e.ToolName, Input: e.Args}
	case mc.PostToolCall:
		ev.Kind, ev.Tool = grapnel.ToolAfter, &grapnel.Tool{Name: e.ToolName, Input: e.Args, Output: rawjson.Must(e.Result)}
	case mc.AgentEnd:
		ev.Kind, ev.Model = grapnel.AgentAfter, &grapnel.Model{Response: rawjson.Must(e.Response)}
	}
	out, err := does.run(n.bench, ev)
	if err != nil {
		panic(err)
	}
	if out.Decision == grapnel.Block {
		return mc.Block(out.Reason)
	}
	for _, value := range out.Set {
		return mc.ModifyArgs(value)
	}
	return mc.Continue()
}

func (n *miniclawNames) operate(op *operation) (got any, ok bool) {
	if op.Do == "is_empty" && op.Event == "" {
		return n.registry.IsEmpty(), true
	}
	return nil, false
}

func (n *miniclawNames) fire(ctx context.Context, ev *grapnel.Event) (answered, error) {
	event, err := miniclawEvent(ev)
	if err != nil {
		return answered{}, err
	}
	action := n.registry.Dispatch(ctx, event)
	if reason, blocked := action.Reason(); blocked {
		return answered{decision: "block", reason: strings.TrimPrefix(reason, "hook error: ")}, nil
	}
	if args, modified := action.Args(); modified {
		return answered{decision: "modify", modified: map[string]any{primaryOf(ev.Kind).word: args}}, nil
	}
	return answered{decision: "continue"}, nil
}

func miniclawEvent(ev *grapnel.Event) (mc.Event, error) {
	switch ev.Kind {
	case grapnel.AgentBefore:
		return mc.AgentStart{Prompt: ev.Prompt.Text}, nil
	case grapnel.ToolBefore:
		return mc.PreToolCall{ToolName: ev.Tool.Name, Args: ev.Tool.Input}, nil
	case grapnel.ToolAfter:
		var result string
		if json.Unmarshal([]byte(cmp.Or(string(ev.Tool.Output), `""`)), &result) != nil {
			result = string(ev.Tool.Output)
		}
		return mc.PostToolCall{ToolName: ev.Tool.Name, Args: ev.Tool.Input, Result: result}, nil
	case grapnel.AgentAfter:
		return mc.AgentEnd{Response: ev.Stop.LastMessage}, nil
	default:
		return nil, fmt.Errorf("%w: event %s", errNotExpressible, ev.Kind)
	}
}
