package ironclaw

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A HookPoint is a moment in the life of an agent, with its name in bundles.
type HookPoint string

// The points.
const (
	BeforeInbound     HookPoint = "beforeInbound"     // the agent got a message of the user
	BeforeToolCall    HookPoint = "beforeToolCall"    // a tool is about to run
	BeforeOutbound    HookPoint = "beforeOutbound"    // the agent is about to send a message
	OnSessionStart    HookPoint = "onSessionStart"    // a session began
	OnSessionEnd      HookPoint = "onSessionEnd"      // a session ended
	TransformResponse HookPoint = "transformResponse" // the final answer of a turn is ready
)

// HookPoints returns all points.
func HookPoints() []HookPoint {
	var all []HookPoint
	for _, row := range dialect.IronClawEvents() {
		all = append(all, HookPoint(row.Native))
	}
	return all
}

// Kind returns the engine's event for the point, or "" for an unknown point.
func (p HookPoint) Kind() grapnel.Kind {
	for _, row := range dialect.IronClawEvents() {
		if row.Native == string(p) {
			return row.Kind
		}
	}
	return ""
}

// UnmarshalText parses the name of a point. An unknown name is an error.
func (p *HookPoint) UnmarshalText(text []byte) error {
	if !slices.Contains(HookPoints(), HookPoint(text)) {
		return fmt.Errorf("unknown hook point %q (want one of %q)", text, HookPoints())
	}
	*p = HookPoint(text)
	return nil
}

// A HookFailureMode is the result when a hook returns an error, panics or takes too long. It
// does not affect outcomes.
type HookFailureMode uint8

// The failure modes.
const (
	FailOpen   HookFailureMode = iota // the run continues without the hook, and a warning goes to log/slog
	FailClosed                        // the run ends with an error
)

var modeNames = [...]string{FailOpen: "fail_open", FailClosed: "fail_closed"}

// String returns fail_open or fail_closed.
func (m HookFailureMode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("failure_mode(%d)", uint8(m))
}

// MarshalText returns fail_open or fail_closed.
func (m HookFailureMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses fail_open or fail_closed. Any other text is an error.
func (m *HookFailureMode) UnmarshalText(text []byte) error {
	i := slices.Index(modeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown failure mode %q (want fail_open or fail_closed)", text)
	}
	*m = HookFailureMode(i)
	return nil
}
