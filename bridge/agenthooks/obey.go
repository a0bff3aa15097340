package agenthooks

import (
	"encoding/json"
	"maps"

	"github.com/grapnel-dev/grapnel"
)

// discarded replaces the output of a tool that an interceptor denied.
const discarded = `"The result of this call was discarded."`

// obey converts the composed verdict to a grapnel.Verdict.
func (f *firing) obey(out *composed) grapnel.Verdict {
	v := grapnel.Verdict{Event: f.ev}
	if own := f.own; own != nil { // the parts that only Grapnel's host understands
		v.Messages, v.Native, v.Unsupported, v.Halt = own.Messages, own.Native, own.Unsupported, own.Halt
	}
	if !out.verdict.permits() {
		f.deny(&v, out)
		return v
	}
	for _, w := range out.verdict.Warnings {
		v.Messages = append(v.Messages, reasonText(w.Reason, w.Message))
	}
	if out.em.moved {
		changes, err := out.em.fields()
		if err == nil {
			v.Event, err = out.em.event()
		}
		if err != nil { // cannot happen, because the emission was valid before
			out.verdict = denied(reasonContextInvalid, failureOf(err))
			v.Event = f.ev
			f.deny(&v, out)
			return v
		}
		v.Changes = changes
	}
	if own := f.own; own != nil {
		if !out.em.isTextInput() { // in a text input the context is already part of the text
			v.Context = own.Context
		}
		if next, has := own.Changes[grapnel.FieldNext]; has {
			v.Changes = maps.Clone(v.Changes)
			if v.Changes == nil {
				v.Changes = map[grapnel.Field]json.RawMessage{}
			}
			v.Changes[grapnel.FieldNext] = next
		}
	}
	return v
}

func (em *emission) isTextInput() bool {
	input, _ := em.target().(map[string]any)
	return em.ev.Kind == grapnel.PromptBefore && isString(input["content"])
}

// deny stops the step, or discards its result.
func (f *firing) deny(v *grapnel.Verdict, out *composed) {
	v.Decision = grapnel.Block
	v.Reasons = f.reasons(out)
	switch f.ev.Kind {
	case grapnel.SessionStart, grapnel.ModelAfter:
		v.Halt = v.Reason()
	case grapnel.ToolAfter, grapnel.ToolFailed:
		v.Changes = map[grapnel.Field]json.RawMessage{grapnel.FieldOutput: json.RawMessage(discarded)}
		fallthrough
	case grapnel.ToolBefore:
		if out.verdict.byHost() && f.hooks.opts.Posture == Terminate {
			v.Halt = v.Reason()
		}
	default: // a Block is sufficient
	}
}

// reasons returns the reasons for a deny.
func (f *firing) reasons(out *composed) []grapnel.Reason {
	hook := "agenthooks"
	if i := out.decidedBy; i != nil {
		if f.own != nil && *i == len(f.hooks.slots)-1 && out.resolvedBy == "" && len(f.own.Reasons) > 0 && !out.verdict.byHost() {
			return f.own.Reasons // the engine's reasons, with the names of its hooks
		}
		if name := f.hooks.names[*i]; name != "" {
			hook = name
		}
	}
	text := reasonText(out.verdict.Reason, out.verdict.Message)
	if text == "" {
		text = "denied"
	}
	return []grapnel.Reason{{Hook: hook, Text: text, Cause: causeOf(&out.verdict)}}
}

func causeOf(v *Verdict) grapnel.Cause {
	switch {
	case v.Reason == reasonTimeout:
		return grapnel.CauseTimeout
	case v.Reason == reasonConflict, v.Reason == reasonDisagreement, v.Reason == reasonUnresolved, !v.byHost():
		return grapnel.CauseDecision // a decision, not a failure
	default:
		return grapnel.CauseError
	}
}

// reasonText joins a reason and a message.
func reasonText(reason, message string) string {
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	default:
		return reason + ": " + message
	}
}
