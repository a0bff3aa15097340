// Package notice builds the hooks that Grapnel adds itself: hooks that show a warning to the user,
// and hooks that block in place of a policy that cannot be used.
package notice

import (
	"context"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	noticeName = "policy-notice"
	ownPrefix  = "grapnel:"
)

// fixedOutcome is a hook with a fixed outcome.
type fixedOutcome grapnel.Outcome

// Handle returns the same outcome for every event.
func (s fixedOutcome) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome(s), nil
}

// shownKinds are the events with which users see messages.
var shownKinds = []grapnel.Kind{grapnel.SessionStart, grapnel.PromptBefore}

// Shows reports whether the hooks of [New] show their message with events of a kind.
func Shows(kind grapnel.Kind) bool { return slices.Contains(shownKinds, kind) }

// New returns a hook that shows a message to the user at session start and with each prompt. An
// event can have one notice of each topic.
func New(topic, text string) grapnel.Spec {
	return For(grapnel.Source{Name: topic, File: OwnFile}, policyfile.OneLine(text))
}

// For returns the hook of New for a source, so that the message shows the source's file.
func For(source grapnel.Source, text string) grapnel.Spec {
	return grapnel.Spec{
		Name: noticeName, Source: OwnSource(source), On: shownKinds,
		Phase: grapnel.PhaseRule, Hook: fixedOutcome{Message: text}, OnError: grapnel.OnErrorOpen,
	}
}

// lockedKinds are the events that [Lock] blocks. Prompts and stops are not among them, so that the
// user can fix the problem.
var lockedKinds = []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.MessageBefore}

// Locks reports whether the hooks of [Locked] block events of a kind.
func Locks(kind grapnel.Kind) bool { return slices.Contains(lockedKinds, kind) }

// Lock returns a hook that blocks tool calls, permissions and messages with a reason.
func Lock(source grapnel.Source, text string) grapnel.Spec {
	return grapnel.Spec{
		Name: "locked", Source: OwnSource(source),
		On:    lockedKinds,
		Phase: grapnel.PhaseRule, Hook: fixedOutcome{Decision: grapnel.Block, Reason: text},
	}
}

// Locked returns the hooks to use when Grapnel cannot work: the policy cannot be found, or a strict
// policy cannot be followed.
func Locked(why string) []grapnel.Spec {
	source := grapnel.Source{Name: OwnFile, File: OwnFile}
	return []grapnel.Spec{Lock(source, "Grapnel cannot do its work, so no tool may run: "+why), For(source, "grapnel: "+why)}
}

// OwnSource returns the source of a hook that Grapnel adds for a file.
func OwnSource(source grapnel.Source) grapnel.Source {
	return grapnel.Source{Name: ownPrefix + source.Name, Scope: source.Scope, File: source.File}
}

// Is reports whether a hook was built by [For].
func Is(s *grapnel.Spec) bool {
	return s.Name == noticeName && strings.HasPrefix(s.Source.Name, ownPrefix)
}

// OwnFile is the file name in the source of hooks that Grapnel adds itself.
const OwnFile = "grapnel"

// Own reports whether a hook comes from no file, see load.Request.Always.
func Own(s *grapnel.Spec) bool { return s.Source.File == OwnFile }
