// Package seam names the methods that the engine looks for on hooks and matchers besides the ones
// of their interfaces. Only the programs of this repository need them. The types of the engine are
// parameters, because the engine imports this package.
package seam

import (
	"context"
	"time"
)

// A Checker is a hook that can report before its first use that it cannot work. The engine calls
// Check when the hook is added, and rejects the hook if Check returns an error.
type Checker interface {
	Check() error
}

// A Graceful hook needs time to clean up after its deadline, for example to kill a program that
// it started. Grace returns how much longer the engine waits for the hook.
type Graceful interface {
	Grace() time.Duration
}

// An IDReader is a hook or a matcher that reads the ID of an event. If an IDReader may listen to a
// kind of event, each event of this kind gets an ID, even if no Record needs one.
type IDReader interface {
	ReadsID()
}

// An Explainer is a matcher that can describe the match in a few words.
type Explainer[Event, Verdict any] interface {
	Explain(ev *Event, v *Verdict) string
}

// A Marker is an observing hook that stores facts about past events, so that hooks can use them to
// decide about later events. The engine calls it with the Verdict before all other observers, and
// Fire waits for it. OnError applies to its errors as it does for a guard: an action that cannot
// be stored for later decisions may be blocked now.
//
// The Marker and its Matcher get the event as it was fired; v.Event is the event after all
// changes. The engine calls Mark instead of Handle. If the error of another Marker makes the
// Verdict stricter, the engine calls Mark again with the new Verdict. Mark must be quick and must
// not modify v. Records list only Markers that failed.
//
// The engine does not unwrap a hook to find a Marker, because a wrapper must handle each event
// itself.
type Marker[Event, Verdict any] interface {
	Mark(ctx context.Context, ev *Event, v *Verdict) error
}

// An Asking error is the failure of a guard that a person can judge. Where its OnError would block, the
// engine asks instead.
type Asking interface {
	error
	Asking()
}

// As returns the first T among h and the hooks that h wraps. A hook that wraps another one has the
// method Unwrap. The engine finds [Checker], [Graceful] and [IDReader] this way, so a wrapper
// keeps these abilities.
func As[T, Hook any](h Hook) (T, bool) {
	for any(h) != nil {
		if found, ok := any(h).(T); ok {
			return found, true
		}
		wrapper, ok := any(h).(interface{ Unwrap() Hook })
		if !ok {
			break
		}
		h = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Classes returns every class of tools, in the order of their constants.
func Classes() []string {
	return []string{"shell", "read", "write", "edit", "search", "fetch", "task", "mcp", "other"}
}

// Forms of a fact whose value differs from the text. Such a view can be read but not set.
const (
	// FormPatch is text that is a patch. The values at such a place are the paths of all files that
	// the patch names.
	FormPatch = "patch"

	// FormArgs is a program with its arguments: an array of words, or an object with the members
	// command and args.
	FormArgs = "args"

	// FormPython and FormNode are code. Notebooks also take shell lines after "!".
	FormPython = "python"
	FormNode   = "node"
)
