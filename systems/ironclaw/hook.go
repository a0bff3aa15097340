package ironclaw

import (
	"context"
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A HookOutcome is the answer of a hook: [OK], [Modify] or [Reject]. The zero HookOutcome is OK.
// HookOutcomes can be compared with ==.
type HookOutcome struct {
	verb verb
	text string
}

type verb uint8

const (
	continues verb = iota
	modifies
	rejects
)

// OK returns the outcome that continues without a change.
func OK() HookOutcome { return HookOutcome{} }

// Modify returns the outcome that continues with another primary content, see
// [HookEvent.PrimaryContent]. For a [ToolCall], the text must be one JSON value; otherwise the old
// parameters stay and a warning goes to log/slog. Session events ignore it.
func Modify(text string) HookOutcome { return HookOutcome{modifies, text} }

// Reject returns the outcome that ends the run, so that the action does not happen.
func Reject(reason string) HookOutcome { return HookOutcome{rejects, reason} }

// Modified returns the new primary content, and whether the outcome has one.
func (o HookOutcome) Modified() (text string, modified bool) {
	if o.verb != modifies {
		return "", false
	}
	return o.text, true
}

// Rejected returns the reason of a rejection, and whether the outcome is one.
func (o HookOutcome) Rejected() (reason string, rejected bool) {
	if o.verb != rejects {
		return "", false
	}
	return o.text, true
}

// String returns the outcome as text, for example Reject(no).
func (o HookOutcome) String() string {
	switch o.verb {
	case modifies:
		return "Modify(" + o.text + ")"
	case rejects:
		return "Reject(" + o.text + ")"
	default:
		return "OK"
	}
}

// HookContext is data next to an event.
type HookContext struct {
	Metadata json.RawMessage // one JSON value; a registry always passes null
}

// DefaultTimeout limits a hook whose Timeout is 0, and MaxTimeout limits every hook.
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = 30 * time.Second
)

// A Hook answers the events of some points. It must be safe for concurrent use and should return
// soon after ctx is done. The registry calls all methods except Execute once, when the hook is
// registered.
type Hook interface {
	// Name returns the name, which is unique in a registry. A text before the first "::" is the
	// hook's source.
	Name() string
	// HookPoints returns the points of the hook, at least one.
	HookPoints() []HookPoint
	// FailureMode is the result if Execute fails, panics or takes too long.
	FailureMode() HookFailureMode
	// Timeout limits Execute; 0 = DefaultTimeout.
	Timeout() time.Duration
	// Execute answers an event. An error means that the hook could not decide.
	Execute(ctx context.Context, event HookEvent, hookCtx *HookContext) (HookOutcome, error)
}

// A HookFunc is a Hook that calls a function. HookName, Points and Func are required.
type HookFunc struct {
	HookName string          // unique in a registry
	Points   []HookPoint     // at least one
	Mode     HookFailureMode // the zero value is FailOpen
	Limit    time.Duration   // 0 = DefaultTimeout
	Func     func(ctx context.Context, event HookEvent, hookCtx *HookContext) (HookOutcome, error)
}

// Name returns HookName.
func (h HookFunc) Name() string { return h.HookName }

// HookPoints returns Points.
func (h HookFunc) HookPoints() []HookPoint { return h.Points }

// FailureMode returns Mode.
func (h HookFunc) FailureMode() HookFailureMode { return h.Mode }

// Timeout returns Limit.
func (h HookFunc) Timeout() time.Duration { return h.Limit }

// Execute calls Func.
func (h HookFunc) Execute(ctx context.Context, event HookEvent, hookCtx *HookContext) (HookOutcome, error) {
	return h.Func(ctx, event, hookCtx)
}

// adapter makes a Hook a hook of the engine.
type adapter struct{ Hook }

// Handle executes the Hook.
func (a adapter) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	event := eventOf(ev)
	if event == nil {
		return grapnel.Outcome{}, nil
	}
	ctx = context.WithValue(ctx, recordKey{}, nil) // the Records of what the hook does are not the Record of this Run
	outcome, err := a.Execute(ctx, event, &HookContext{Metadata: json.RawMessage("null")})
	out := grapnel.Outcome{}
	switch field := primaryField(ev.Kind); {
	case outcome.verb == rejects:
		out.Decision, out.Reason = grapnel.Block, outcome.text
	case outcome.verb == modifies && field == grapnel.FieldInput:
		out.Set = map[grapnel.Field]json.RawMessage{field: json.RawMessage(outcome.text)}
	case outcome.verb == modifies && field != "":
		out.Set = map[grapnel.Field]json.RawMessage{field: rawjson.Quote(outcome.text)}
	}
	return out, err
}
