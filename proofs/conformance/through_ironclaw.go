package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	ic "github.com/grapnel-dev/grapnel/systems/ironclaw"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

func newIronclawNames(b *bench) namesake { return &ironclawNames{b, ic.NewHookRegistry(nil)} }

// ironclawNames runs hooks through package ironclaw.
type ironclawNames struct {
	bench    *bench
	registry *ic.HookRegistry
}

func (n *ironclawNames) engine() *grapnel.Engine { return n.registry.Engine() }

// register adds a function. Rules and webhooks are in bundles, which other cases load.
func (n *ironclawNames) register(def *hookDef, on []grapnel.Kind) (name string, ok bool, err error) {
	if def.Kind != "func" {
		return "", false, nil
	}
	s, err := n.bench.spec(def, on) // for the fields that a hook of the package has too
	if err != nil {
		return "", true, err
	}
	var does behaviour
	if err := s.Hook.(*watched).decode(&does); err != nil {
		return "", true, err
	}
	hook := ic.HookFunc{
		HookName: s.FullName(), Limit: time.Duration(def.TimeoutMS)*time.Millisecond + time.Duration(def.Timeout)*time.Second,
		Func: func(_ context.Context, event ic.HookEvent, _ *ic.HookContext) (ic.HookOutcome, error) {
			return n.run(&does, event)
		},
	}
	for _, kind := range s.On {
		for _, point := range ic.HookPoints() {
			if point.Kind() == kind {
				hook.Points = append(hook.Points, point)
			}
		}
	}
	if def.FailureMode != "" {
		if err := hook.Mode.UnmarshalText([]byte(def.FailureMode)); err != nil {
			return "", true, err
		}
	}
	if def.Priority == nil {
		return s.FullName(), true, n.registry.Register(hook)
	}
	if *def.Priority < 0 {
		return "", true, fmt.Errorf("%w: priority %d", errNotExpressible, *def.Priority)
	}
	return s.FullName(), true, n.registry.RegisterWithPriority(hook, uint32(*def.Priority))
}

func (n *ironclawNames) run(does *behaviour, event ic.HookEvent) (ic.HookOutcome, error) {
	ev := &grapnel.Event{Kind: event.Point().Kind()}
	switch e := event.(type) {
	case ic.Inbound:
		ev.Prompt = &grapnel.Prompt{Text: e.Content}
	case ic.ToolCall:
		ev.Tool = &grapnel.Tool{Name: e.ToolName, Input: e.Parameters}
	case ic.Outbound:
		ev.Message = &grapnel.Message{Channel: e.Channel, Content: e.Content}
	case ic.ResponseTransform:
		ev.Model = &grapnel.Model{Response: rawjson.Must(e.Response)}
	default:
		ev.Session.ID = event.PrimaryContent()
	}
	out, err := does.run(n.bench, ev)
	if out.Decision == grapnel.Block {
		return ic.Reject(out.Reason), err
	}
	for field, value := range out.Set {
		if field == grapnel.FieldInput {
			return ic.Modify(string(value)), err
		}
		return ic.Modify(text(value)), err
	}
	return ic.OK(), err
}

func (n *ironclawNames) operate(op *operation) (got any, ok bool) {
	switch {
	case op.Event != "":
		return nil, false
	case op.Do == "list":
		return n.registry.List(), true
	case op.Do == "unregister":
		return n.registry.Unregister(op.Name), true
	case op.Do == "unregister_source":
		return n.registry.UnregisterSource(op.Source), true
	default:
		return nil, false
	}
}

func (n *ironclawNames) fire(ctx context.Context, ev *grapnel.Event) (answered, error) {
	event, err := ironclawEvent(ev)
	if err != nil {
		return answered{}, err
	}
	outcome, err := n.registry.Run(ctx, event)
	if rejected, ok := errors.AsType[*ic.RejectedError](err); ok {
		return answered{decision: "block", cause: grapnel.CauseDecision, reason: rejected.Reason}, nil
	}
	if late, ok := errors.AsType[*ic.TimeoutError](err); ok {
		return answered{decision: "block", cause: grapnel.CauseTimeout, reason: late.Error()}, nil
	}
	if failed, ok := errors.AsType[*ic.ExecutionFailedError](err); ok {
		return answered{decision: "block", cause: grapnel.CauseError, reason: failed.Error()}, nil
	}
	if err != nil {
		return answered{}, err
	}
	changed, modified := outcome.Modified()
	if !modified {
		return answered{decision: "continue"}, nil
	}
	value := json.RawMessage(changed)
	if ev.Kind != grapnel.ToolBefore {
		value = rawjson.Must(changed)
	}
	return answered{decision: "modify", modified: map[string]any{primaryOf(ev.Kind).word: value}}, nil
}

func ironclawEvent(ev *grapnel.Event) (ic.HookEvent, error) {
	s := &ev.Session
	switch ev.Kind {
	case grapnel.PromptBefore:
		return ic.Inbound{UserID: s.User, Channel: s.Channel, Content: ev.Prompt.Text, ThreadID: s.Thread}, nil
	case grapnel.ToolBefore:
		return ic.ToolCall{ToolName: ev.Tool.Name, Parameters: ev.Tool.Input, UserID: s.User, Context: s.Job}, nil
	case grapnel.MessageBefore:
		return ic.Outbound{UserID: s.User, Channel: ev.Message.Channel, Content: ev.Message.Content, ThreadID: s.Thread}, nil
	case grapnel.ResponseBefore:
		return ic.ResponseTransform{UserID: s.User, ThreadID: s.Thread, Response: text(ev.Model.Response)}, nil
	case grapnel.SessionStart:
		return ic.SessionStart{UserID: s.User, SessionID: s.ID}, nil
	case grapnel.SessionEnd:
		return ic.SessionEnd{UserID: s.User, SessionID: s.ID, ThreadIDs: s.Threads}, nil
	default:
		return nil, fmt.Errorf("%w: event %s", errNotExpressible, ev.Kind)
	}
}

// ironclawNamesView loads files through package ironclaw: all of an installation, or one bundle.
func ironclawNamesView(req *hookfile.Request, application []grapnel.Spec) (view, error) {
	registry := ic.NewHookRegistry(nil)
	opts := ic.BundleOptions{Active: req.Active, Webhook: req.Webhook}
	var loaded *ic.Loaded
	var err error
	switch {
	case req.Audit == nil && strings.HasPrefix(req.Files[0].Source, "plugin."):
		loaded, err = registry.RegisterPluginBundles(req.Files, &opts)
	case req.Audit == nil:
		loaded, err = registry.RegisterWorkspaceBundles(req.Files, &opts)
	default:
		summary := builtin.SessionSummary(builtin.Conversations{}, nil, nil)
		files := append([]hookfile.File{}, req.Files...) // nil would be the files of this machine
		loaded, err = registry.Bootstrap(&ic.BootstrapOptions{BundleOptions: opts, Files: files, Audit: req.Audit, Summary: &summary})
		if len(application) == 0 {
			registry.Unregister(summary.Name) // the case's application registers no summary
		}
	}
	if err != nil {
		return nil, err
	}
	return ironClawSetView(&hookfile.Set{Summary: loaded.Summary, Errors: loaded.Errors, Warnings: loaded.Warnings}, registry.List()), nil
}
