package grapnel

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Decision is how an answer bears on what is happening, weakest first. Merging
// takes the maximum, so a Block is never undone.
type Decision uint8

// The decisions. None is "no opinion" and is not Allow: Allow skips the agent's
// own permission prompt.
const (
	None Decision = iota
	Allow
	Ask
	Block
)

var decisionNames = [...]string{None: "none", Allow: "allow", Ask: "ask", Block: "block"}

// String returns none, allow, ask or block.
func (d Decision) String() string { return nameOf(decisionNames[:], int(d), "decision") }

// MarshalText writes the decision's name.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the decision's name; empty is none.
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

// An Outcome is one hook's answer. The zero Outcome is "no opinion". What it refers
// to belongs to the engine once it is returned.
type Outcome struct {
	Decision Decision                   `json:"decision,omitempty"`
	Reason   string                     `json:"reason,omitempty"`  // for the model
	Message  string                     `json:"message,omitempty"` // for the person
	Context  []string                   `json:"context,omitempty"` // added to what the model sees
	Set      map[Field]json.RawMessage  `json:"set,omitempty"`     // replaces fields; then
	Patch    map[Field]json.RawMessage  `json:"patch,omitempty"`   // RFC 7396 merge patches on them
	Halt     string                     `json:"halt,omitempty"`    // non-empty: stop the agent's turn, and why; beside Decision
	Native   map[string]json.RawMessage `json:"native,omitempty"`  // <agent>.<key>: what only one agent understands
}

func (o *Outcome) zero() bool {
	return o.Decision == None && o.Reason == "" && o.Message == "" && o.Halt == "" &&
		len(o.Context) == 0 && len(o.Set) == 0 && len(o.Patch) == 0 && len(o.Native) == 0
}

// Cause is why a hook's answer counts.
type Cause string

// The causes.
const (
	CauseDecision Cause = "decision" // the hook said so
	CauseError    Cause = "error"    // it could not answer, and its on_error decided
	CauseTimeout  Cause = "timeout"  // it was too slow, and its on_error decided
)

// Reason is one part of why a Verdict is what it is.
type Reason struct {
	Hook  string `json:"hook"`
	Text  string `json:"text"`
	Cause Cause  `json:"cause"`
}

// A Verdict is the merged answer to an event.
type Verdict struct {
	Decision    Decision                   `json:"decision"`
	Reasons     []Reason                   `json:"reasons,omitempty"` // of the hooks that made the Decision, in plan order
	Messages    []string                   `json:"messages,omitempty"`
	Context     []string                   `json:"context,omitempty"`
	Changes     map[Field]json.RawMessage  `json:"changes,omitempty"` // what differs from the event as it came
	Halt        string                     `json:"halt,omitempty"`
	Native      map[string]json.RawMessage `json:"native,omitempty"`
	Unsupported []string                   `json:"unsupported,omitempty"` // what the agent cannot be told, and what it is told instead
	Event       *Event                     `json:"-"`                     // the event as it shall now be, changes that are unsupported included
}

// Reason joins the texts of the Reasons, one a line.
func (v *Verdict) Reason() string { return strings.Join(reasonTexts(v.Reasons), "\n") }

func reasonTexts(reasons []Reason) []string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Text
	}
	return texts
}
