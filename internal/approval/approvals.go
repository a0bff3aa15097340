package approval

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
)

// how is how a person approves a call, in replies for models.
const how = `"grapnel allow" in another terminal`

// Approvals applies the Grants of a Store to events. The zero value approves nothing, and states in
// replies how a person can approve.
type Approvals struct {
	Store  Store
	DryRun bool // do not use Grants up

	// Retry is the ID that this process gave to its event before it asked a daemon, which did not
	// answer in time. A use by the daemon is then a use by the event. Empty = no daemon was asked.
	Retry string

	Policy func() string // digest of the policies in force; nil = unknown, and no Grant that names one is valid
}

// Find returns the approval of a hook's answer: see grapnel.Options.
func (a Approvals) Find(_ context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	if !slices.Contains(kinds, ev.Kind) || OriginOf(hook, decision) != Approvable {
		return grapnel.Approval{}
	}
	var found grapnel.Approval
	if ev.Tool != nil { // for a prompt, Gemini CLI shows such a message instead of the reason
		found.How = how
	}
	if g, ok := a.find(ev); ok && g.covers(ev.Session.ID, a.policy(g), hook.FullName()) {
		found.ID = g.ID
		found.Use = func(_ context.Context, ev *grapnel.Event) bool { return a.use(ev, g.ID) }
	}
	return found
}

func (a Approvals) find(ev *grapnel.Event) (*Grant, bool) {
	if a.Store == "" {
		return nil, false
	}
	key, err := a.Store.readKey()
	if err != nil { // most users have allowed nothing
		return nil, false
	}
	return a.Store.Find(digestOf(key, ev), a.retried(ev), time.Now())
}

// policy returns the digest of the policies in force, if the Grant names one.
func (a Approvals) policy(g *Grant) string {
	if g.Policy == "" || a.Policy == nil {
		return ""
	}
	return a.Policy()
}

// retried returns the ID of the event if a daemon was asked about it, and otherwise nothing.
func (a Approvals) retried(ev *grapnel.Event) string {
	if ev.ID != a.Retry {
		return ""
	}
	return ev.ID
}

func (a Approvals) use(ev *grapnel.Event, id string) bool {
	g, ok := a.find(ev)
	return ok && g.ID == id && (a.DryRun || a.Store.usedBy(g, a.retried(ev)) || a.Store.Use(g, ev.ID))
}

// An Origin is the reason why a person can approve the answer of a hook, or not.
type Origin string

// The origins.
const (
	Approvable Origin = ""        // a question, or a rule of the user's file or of a pack that this file uses
	OfGrapnel  Origin = "grapnel" // Grapnel's own hooks: self-protection, or a policy that cannot be used
	OfManaged  Origin = "managed" // from an administrator
	OfProject  Origin = "project" // from the project
	OfPlugin   Origin = "plugin"  // from a plugin of an agent
	OfSession  Origin = "session" // from a file on the command line
	OfProgram  Origin = "program" // a program, a server or a Go function decided
	OfForeign  Origin = "foreign" // from a hook file of another system
)

// OriginOf returns whether a person can approve a decision of a hook. Each question is for a
// person, except the questions of Grapnel itself.
func OriginOf(s *grapnel.Spec, decision grapnel.Decision) Origin {
	name, file := s.Source.Name, s.Source.File
	switch {
	case notice.Own(s), strings.HasPrefix(name, notice.OwnSource(grapnel.Source{}).Name):
		return OfGrapnel
	case decision == grapnel.Ask:
		return Approvable
	case s.Source.Scope == grapnel.ScopeManaged:
		return OfManaged
	case s.Source.Scope == grapnel.ScopeProject:
		return OfProject
	case s.Source.Scope == grapnel.ScopePlugin:
		return OfPlugin
	case s.Source.Scope == grapnel.ScopeSession:
		return OfSession
	case name != file && !strings.HasPrefix(name, file+"#"):
		return OfForeign
	case s.Phase != grapnel.PhaseRule:
		return OfProgram
	default:
		return Approvable
	}
}
