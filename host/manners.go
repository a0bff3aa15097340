package host

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// Manners is how an agent takes a refusal: what it says in the place of what was
// refused, and whom it does not wait for. An engine's Preset says how hooks run, this
// says what the agent makes of it, and both have the same names.
type Manners struct {
	Name     string
	Prompt   Words // the answer to the person
	Tool     Words // the result of the tool
	Job      Words // the same in a background job
	Response Words // the answer of the agent

	// Unwaited is fired in the background and without influence: session.start, model.after,
	// and what nobody could stop anyway. Other events are waited for all the same.
	Unwaited []grapnel.Kind

	// Ignored is waited for, and what hooks answer is told and has no influence.
	Ignored []grapnel.Kind
}

// Words are what is said: formats with a %s for the reason.
type Words struct {
	Refused string // a hook or a person said no
	Failed  string // a guard could not answer, and that counts as no
}

// AllManners returns the Manners of the systems whose presets grapnel has, its own first.
// The result is the caller's.
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
		// MC-13: the reason itself is the result. MC-12: only calls of tools can be stopped or changed.
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

// FindManners returns the Manners with this name. They are the caller's.
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

// text is what stands in the place of what ev is about.
func (m *Manners) text(ev *grapnel.Event, reason string, failed bool) string {
	switch ev.Kind {
	case grapnel.PromptBefore:
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
