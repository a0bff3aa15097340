package miniclaw

import (
	"encoding/json"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An Action is the answer to an [Event]: [Continue], [Block] or [ModifyArgs]. The zero Action is
// Continue. Block and ModifyArgs affect only a [PreToolCall]; for the other events, Dispatch
// returns them and the agent ignores them.
type Action struct {
	verb verb
	text string // the reason, or the arguments as JSON
}

type verb uint8

const (
	continues verb = iota
	blocks
	modifies
)

// Continue returns the Action that changes nothing.
func Continue() Action { return Action{} }

// Block returns the Action that prevents the call. The model gets the reason as the call's result.
func Block(reason string) Action { return Action{blocks, reason} }

// ModifyArgs returns the Action that replaces all arguments of the call. If args is not one JSON
// value, the registry keeps the old arguments and logs a warning.
func ModifyArgs(args json.RawMessage) Action { return Action{modifies, string(args)} }

// Reason returns the reason of a Block, and whether the Action is one.
func (a Action) Reason() (reason string, blocked bool) {
	if a.verb != blocks {
		return "", false
	}
	return a.text, true
}

// Args returns the new arguments of a ModifyArgs, and whether the Action is one.
func (a Action) Args() (args json.RawMessage, modified bool) {
	if a.verb != modifies {
		return nil, false
	}
	return json.RawMessage(a.text), true
}

// Equal reports whether two Actions are the same. It compares arguments as JSON values, so the
// order of members and white space do not matter.
func (a Action) Equal(b Action) bool {
	return a == b || a.verb == modifies && b.verb == modifies && rawjson.Equal([]byte(a.text), []byte(b.text))
}

// String returns the Action as text, for example Block(no).
func (a Action) String() string {
	switch a.verb {
	case blocks:
		return "Block(" + a.text + ")"
	case modifies:
		return "ModifyArgs(" + a.text + ")"
	default:
		return "Continue"
	}
}

// outcome returns the Action in the engine's form.
func (a Action) outcome() grapnel.Outcome {
	switch a.verb {
	case blocks:
		return grapnel.Outcome{Decision: grapnel.Block, Reason: a.text}
	case modifies:
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(a.text)}}
	default:
		return grapnel.Outcome{}
	}
}
