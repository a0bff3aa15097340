package agenthooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The verdict of Grapnel's own engine is the verdict of one interceptor. There are three
// differences:
//
//   - Grapnel's Allow skips the agent's permission prompt, and an interceptor's allow means "no
//     objection". Grapnel's Allow becomes an interceptor's allow, but never the reverse.
//   - A hook failure that is fail open in Grapnel is a failure of the interceptor, and denies.
//   - Parts that the specification cannot express (a halt, context at the start of a session, a
//     next call) go directly to Grapnel's host.

// heard is the context key under which an Observer of the engine stores failed hooks.
type heard struct{}

// failures counts the failures in one firing of the engine.
type failures struct{ timeouts, errors int }

// judgeBy returns the judge function for an engine.
func judgeBy(engine *grapnel.Engine) (func(ctx context.Context, em *emission) (reply, error), error) {
	engine, err := engine.With() // the Observer applies only to this copy
	if err != nil {
		return nil, err
	}
	engine.AddObserver(grapnel.ObserverFunc(func(ctx context.Context, rec *grapnel.Record) {
		failed, ok := ctx.Value(heard{}).(*failures)
		if !ok {
			return
		}
		for i := range rec.Hooks {
			switch run := &rec.Hooks[i]; {
			case !run.FailOpen:
			case run.Cause == grapnel.CauseTimeout:
				failed.timeouts++
			default:
				failed.errors++
			}
		}
	}))
	return func(ctx context.Context, em *emission) (reply, error) {
		ev, err := em.event()
		if err != nil {
			return reply{}, err
		}
		var failed failures
		v := engine.In(ctx).Fire(context.WithValue(ctx, heard{}, &failed), ev)
		switch {
		case failed.errors > 0:
			return reply{own: &v}, fmt.Errorf("%d hooks could not answer", failed.errors+failed.timeouts)
		case failed.timeouts > 0:
			return reply{own: &v}, errLate
		}
		verdict := em.verdictOf(&v)
		return reply{verdict.JSON(), &v}, nil
	}, nil
}

// verdictOf converts the engine's Verdict to a verdict of the specification.
func (em *emission) verdictOf(v *grapnel.Verdict) *Verdict {
	deny := func(message string) *Verdict {
		reason := namespace
		if len(v.Reasons) > 0 {
			reason += ":" + v.Reasons[0].Hook
		}
		return &Verdict{Decision: Deny, Reason: reason, Message: message}
	}
	if v.Decision == grapnel.Block || v.Halt != "" {
		return deny(strings.Join(slices.DeleteFunc([]string{v.Reason(), v.Halt}, func(s string) bool { return s == "" }), "\n"))
	}
	target, changed, unsupported := em.changedBy(v)
	switch {
	case unsupported != "":
		// An unsupported part becomes a deny.
		v.Unsupported = append(v.Unsupported, unsupported+": downgraded to block")
		return deny(unsupported + " must be changed, but an interceptor cannot do that")
	case v.Decision == grapnel.Ask && changed:
		// A Resolver that lifts the deny would permit the unchanged input.
		v.Unsupported = append(v.Unsupported, "ask together with a change: downgraded to block")
		v.Reasons = append(v.Reasons, grapnel.Reason{
			Hook: namespace, Text: fmt.Sprintf("Use this instead: %s", rawjson.AppendSorted(nil, target)), Cause: grapnel.CauseDecision,
		})
		return deny(v.Reason())
	case v.Decision == grapnel.Ask:
		ask := deny(v.Reason())
		ask.Approval = json.RawMessage("{}")
		return ask
	case changed:
		return &Verdict{Decision: Transform, Transform: &Change{Path: roots[0], Value: rawjson.AppendSorted(nil, target)}}
	default:
		return &Verdict{Decision: Allow}
	}
}

// changedBy returns the target with the engine's changes. lost names a change that an interceptor
// cannot make.
func (em *emission) changedBy(v *grapnel.Verdict) (target any, changed bool, unsupported string) {
	target = em.target()
	input, _ := target.(map[string]any)
	if content, is := input["content"].(string); is && em.ev.Kind == grapnel.PromptBefore && len(v.Context) > 0 {
		target, changed = put(input, "content", below(content, v.Context)), true
	}
	for _, f := range slices.Sorted(maps.Keys(v.Changes)) {
		if f == grapnel.FieldNext {
			continue // the host makes this call, and it is judged like any other
		}
		value, err := parse(v.Changes[f], string(f))
		if err != nil {
			return target, changed, string(f)
		}
		changed = true
		switch whole, _ := value.(map[string]any); {
		case em.ev.Kind == grapnel.PromptBefore:
			content := like(input["content"], value)
			if text, is := content.(string); is {
				content = below(text, v.Context)
			}
			target = put(input, "content", content)
		case f == grapnel.FieldRequest && em.sameBut(em.ev.Model.Request, whole, "messages"):
			target = whole["messages"]
		case em.ev.Kind == grapnel.ModelAfter && em.sameBut(em.ev.Model.Response, whole, responseMembers...):
			object := map[string]any{}
			for _, name := range responseMembers {
				object[name] = whole[name]
			}
			target = object
		case em.ev.Kind == grapnel.ResponseBefore:
			target = put(input, "content", value)
		case f == grapnel.FieldInput, f == grapnel.FieldOutput && em.ev.Kind != grapnel.ToolBefore:
			target = value
		default:
			return target, changed, string(f)
		}
	}
	return target, changed, ""
}

// like converts the text of a prompt to the type of the original content, because hooks get
// content that is not text as its JSON.
func like(was, now any) any {
	text, _ := now.(string)
	if object, err := parse([]byte(text), ""); err == nil && isObject(was) && isObject(object) {
		return object
	}
	return now
}

// sameBut reports whether an object differs from the original only in the given members.
func (em *emission) sameBut(was json.RawMessage, now map[string]any, members ...string) bool {
	v, err := parse(was, "")
	before, is := v.(map[string]any)
	if err != nil || !is || now == nil {
		return false
	}
	rest := func(tree map[string]any) string {
		tree = maps.Clone(tree)
		maps.DeleteFunc(tree, func(name string, _ any) bool { return slices.Contains(members, name) })
		return string(rawjson.AppendSorted(nil, tree))
	}
	return rest(before) == rest(now)
}

// below appends context to a text.
func below(text string, context []string) string {
	if len(context) == 0 {
		return text
	}
	return text + "\n\n" + strings.Join(context, "\n")
}
