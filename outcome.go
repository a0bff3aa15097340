package grapnel

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Decision is the effect of an answer on the event, weakest first. Merging takes the maximum, so
// no hook can undo a Block.
type Decision uint8

// The decisions. None means "no opinion" and differs from Allow: Allow skips the agent's own
// permission prompt.
const (
	None Decision = iota
	Allow
	Ask
	Block
)

var decisionNames = [...]string{None: "none", Allow: "allow", Ask: "ask", Block: "block"}

// String returns none, allow, ask or block.
func (d Decision) String() string { return nameOf(decisionNames[:], int(d), "decision") }

// MarshalText returns the decision's name.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the decision's name. Empty text is None.
func (d *Decision) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = None
		return nil
	}
	for i, name := range decisionNames {
		if string(text) == name {
			*d = Decision(i)
			return nil
		}
	}
	return fmt.Errorf("unknown decision %q (want none, allow, ask or block)", text)
}

// An Outcome is one hook's answer. The zero Outcome means "no opinion". A hook must not modify
// the maps and slices of an Outcome after it has returned it.
type Outcome struct {
	Decision Decision                   `json:"decision,omitempty"`
	Reason   string                     `json:"reason,omitempty"`  // for the model
	Message  string                     `json:"message,omitempty"` // for the user
	Context  []string                   `json:"context,omitempty"` // added to the model's context
	Set      map[Field]json.RawMessage  `json:"set,omitempty"`     // replaces fields; applied before Patch
	Patch    map[Field]json.RawMessage  `json:"patch,omitempty"`   // RFC 7396 merge patches for fields
	Halt     string                     `json:"halt,omitempty"`    // non-empty: end the agent's turn for this reason; independent of Decision
	Native   map[string]json.RawMessage `json:"native,omitempty"`  // <agent>.<key>: values that only one agent supports

	Output *Output `json:"-"` // result of the hook's program or server, which the engine moves to the HookRun; nil = none
}

func (o *Outcome) zero() bool {
	return o.Decision == None && o.Reason == "" && o.Message == "" && o.Halt == "" &&
		len(o.Context) == 0 && len(o.Set) == 0 && len(o.Patch) == 0 && len(o.Native) == 0
}

// Cause is the origin of a hook's decision.
type Cause string

const (
	CauseDecision Cause = "decision" // the hook decided
	CauseError    Cause = "error"    // the hook failed, and its on_error decided
	CauseTimeout  Cause = "timeout"  // the hook exceeded its timeout, and its on_error decided
)

// Reason is one hook's reason for a Verdict.
type Reason struct {
	Hook  string `json:"hook"`
	Text  string `json:"text"`
	Cause Cause  `json:"cause"`
}

// A Verdict is the merged answer to an event.
type Verdict struct {
	Decision    Decision                   `json:"decision"`
	Reasons     []Reason                   `json:"reasons,omitempty"` // reasons of the hooks that made the Decision, in plan order
	Messages    []string                   `json:"messages,omitempty"`
	Context     []string                   `json:"context,omitempty"`
	Changes     map[Field]json.RawMessage  `json:"changes,omitempty"` // fields that differ from the event as it was fired
	Halt        string                     `json:"halt,omitempty"`
	Native      map[string]json.RawMessage `json:"native,omitempty"`
	Unsupported []string                   `json:"unsupported,omitempty"` // parts that the agent does not support, and their replacements
	Err         error                      `json:"-"`                     // errors of the hooks whose failure made the Decision, or that did not run because the context was done; nil = hooks decided
	Event       *Event                     `json:"-"`                     // the event with all changes applied, including unsupported changes
}

// Stops reports whether the action must not run: a hook blocked it, ended the turn,
// or wants a person to approve it first. Reason and Halt give the reason. Otherwise the action
// is the one of Event. An agent that can ask a person uses package host.
func (v Verdict) Stops() bool { return v.Decision >= Ask || v.Halt != "" }

// Reason returns the texts of the Reasons, one per line.
func (v Verdict) Reason() string { return strings.Join(reasonTexts(v.Reasons), "\n") }

func reasonTexts(reasons []Reason) []string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Text
	}
	return texts
}
