// Package notice makes the hooks that Grapnel itself puts in: what tells the person that
// something is wrong, and what blocks in place of a guard that cannot work.
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

// said is the answer of a hook that Grapnel itself puts in.
type said grapnel.Outcome

// Handle gives the same answer to every event.
func (s said) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome(s), nil
}

// New returns a hook that tells the person something at session start and with each prompt.
func New(text string) grapnel.Spec {
	return For(grapnel.Source{Name: "grapnel", File: "grapnel"}, policyfile.OneLine(text))
}

// For is New for a source, whose file the person finds.
func For(source grapnel.Source, text string) grapnel.Spec {
	return grapnel.Spec{
		Name: noticeName, Source: OwnSource(source), On: []grapnel.Kind{grapnel.SessionStart, grapnel.PromptBefore},
		Phase: grapnel.PhaseRule, Hook: said{Message: text}, OnError: grapnel.OnErrorOpen,
	}
}

// lockedKinds are the events at which nothing may happen unguarded. Prompts and
// stops are not among them: the person must be able to mend what is wrong.
var lockedKinds = []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.MessageBefore}

// Locks reports whether the hooks of [Locked] block an event.
func Locks(kind grapnel.Kind) bool { return slices.Contains(lockedKinds, kind) }

// Lock blocks what a guard would have seen.
func Lock(source grapnel.Source, text string) grapnel.Spec {
	return grapnel.Spec{
		Name: "locked", Source: OwnSource(source),
		On:    lockedKinds,
		Phase: grapnel.PhaseRule, Hook: said{Decision: grapnel.Block, Reason: text},
	}
}

// Locked returns the hooks that stand in where Grapnel cannot do its work: its
// policy cannot be found, or a strict one cannot be kept to.
func Locked(why string) []grapnel.Spec {
	source := grapnel.Source{Name: OwnFile, File: OwnFile}
	return []grapnel.Spec{Lock(source, "Grapnel cannot do its work, so no tool may run: "+why), For(source, "grapnel: "+why)}
}

// OwnSource is the source of hooks that Grapnel itself puts in a file's place.
func OwnSource(source grapnel.Source) grapnel.Source {
	return grapnel.Source{Name: ownPrefix + source.Name, Scope: source.Scope, File: source.File}
}

// Is reports whether a hook is one of [For].
func Is(s *grapnel.Spec) bool {
	return s.Name == noticeName && strings.HasPrefix(s.Source.Name, ownPrefix)
}

// OwnFile stands for Grapnel itself where others have a policy file.
const OwnFile = "grapnel"

// Own reports whether a hook is one of those that no file names, see policy.Request.Always.
func Own(s *grapnel.Spec) bool { return s.Source.File == OwnFile }
