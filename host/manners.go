package host

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// Manners define how an agent reports refusals and which events it does not wait for. An engine's
// Preset defines how hooks run; Manners define the effect on the agent. Both use the same names.
type Manners struct {
	Name     string
	Prompt   Words // the answer to the user, or to the sender of a message
	Tool     Words // the result of the tool
	Job      Words // the result of the tool if the session has a Job
	Response Words // the agent's answer

	// Unwaited events are fired in the background and their verdicts have no effect:
	// session.start, model.after, and events that cannot be stopped. The agent always waits for
	// other events.
	Unwaited []grapnel.Kind

	// Ignored events are waited for, but their verdicts are only reported and have no effect.
	Ignored []grapnel.Kind
}

// Words are format strings with a %s for the reason.
type Words struct {
	Refused string // a hook or a person refused
	Failed  string // a guard failed, which is treated as a refusal
}

// AllManners returns the Manners of the systems that have a Preset, Grapnel's first. The caller
// may modify the result.
func AllManners() []Manners {
	all := make([]Manners, len(manners))
	for i := range manners {
		all[i] = manners[i].clone()
	}
	return all
}

func (m *Manners) clone() Manners {
	own := *m
	own.Unwaited, own.Ignored = slices.Clone(m.Unwaited), slices.Clone(m.Ignored)
	return own
}

var manners = []Manners{
	{
		Name:     "grapnel",
		Prompt:   Words{"Not done: %s", "Not done, since a guard could not answer: %s"},
		Tool:     Words{"The call was blocked: %s", "The call was blocked, since a guard could not answer: %s"},
		Job:      Words{"The call was blocked: %s", "The call was blocked, since a guard could not answer: %s"},
		Response: Words{"The answer was withheld: %s", "The answer was withheld, since a guard could not answer: %s"},
	},
	{
		// IC-27, IC-28, IC-31, IC-32.
		Name:     "ironclaw",
		Prompt:   Words{"[Message rejected: %s]", "[Message blocked by hook policy: %s]"},
		Tool:     Words{"Tool call rejected by hook: %s", "Tool call blocked by hook policy: %s"},
		Job:      Words{"Blocked by hook: %s", "Blocked by hook failure mode: %s"},
		Response: Words{"[Response filtered: %s]", "[Response blocked by hook policy: %s]"},
		Unwaited: []grapnel.Kind{grapnel.SessionStart, grapnel.SessionEnd},
	},
	{
		// MC-13: the result is the reason. MC-12: only tool calls can be stopped or changed.
		Name:     "miniclaw",
		Prompt:   Words{"%s", "%s"},
		Tool:     Words{"%s", "%s"},
		Job:      Words{"%s", "%s"},
		Response: Words{"%s", "%s"},
		Ignored:  []grapnel.Kind{grapnel.AgentBefore, grapnel.AgentAfter, grapnel.ToolAfter, grapnel.ToolFailed},
	},
	{
		// FL-27: a slow hook must not delay each answer.
		Name:     "flyto",
		Prompt:   Words{"%s", "%s"},
		Tool:     Words{"%s", "%s"},
		Job:      Words{"%s", "%s"},
		Response: Words{"%s", "%s"},
		Unwaited: []grapnel.Kind{grapnel.ModelAfter},
	},
}

// FindManners returns the Manners with this name and reports whether they exist. The caller may
// modify the result.
func FindManners(name string) (*Manners, bool) {
	i := slices.IndexFunc(manners, func(m Manners) bool { return m.Name == name })
	if i < 0 {
		return nil, false
	}
	own := manners[i].clone()
	return &own, true
}

func (m *Manners) unwaited(k grapnel.Kind) bool { return slices.Contains(m.Unwaited, k) }

func (m *Manners) ignored(k grapnel.Kind) bool { return slices.Contains(m.Ignored, k) }

// text returns the text that replaces a refused prompt, tool result or answer.
func (m *Manners) text(ev *grapnel.Event, reason string, failed bool) string {
	switch ev.Kind {
	case grapnel.PromptBefore, grapnel.MessageReceived:
		return m.Prompt.text(reason, failed)
	case grapnel.ToolBefore, grapnel.PermissionBefore:
		return m.Tool.text(reason, failed)
	case grapnel.ModelBefore, grapnel.ModelAfter, grapnel.ResponseBefore:
		return m.Response.text(reason, failed)
	default:
		return reason
	}
}

func (w Words) text(reason string, failed bool) string {
	format := w.Refused
	if failed {
		format = w.Failed
	}
	if format == "" {
		format = "%s"
	}
	return fmt.Sprintf(format, reason)
}
