package grapnel

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Blocking defines the effect of a Block on an event.
type Blocking string

const (
	BlockingNothing  Blocking = ""         // the event cannot be stopped: a Block is illegal
	BlockingAction   Blocking = "action"   // the announced action does not happen
	BlockingStop     Blocking = "stop"     // the Block prevents the stop: the agent continues, with the reason as input
	BlockingFeedback Blocking = "feedback" // the action has already happened; the model gets the reason
)

// The merge rules of a Change.
const (
	mergeChain     = ""          // each hook sees the result of the previous one; the last one wins
	mergeJoin      = "join"      // texts are joined with a newline
	mergeIntersect = "intersect" // a list keeps only the elements that all hooks allow; see Spec.Unite
	mergeUnion     = "union"     // a list contains every element that any hook allows, sorted; only for systems that unite lists
	mergeOr        = "or"        // true if any hook sets true
	mergeStrictest = "strictest" // the strictest mode wins: none, then any, then auto
)

// Change names a field that hooks may change, and how their changes are combined:
// the last one wins, or join, intersect, or, strictest.
type Change struct {
	Field Field  `json:"field"`
	Merge string `json:"merge,omitempty"`
}

// A Contract defines the decisions and changes that an event permits.
type Contract struct {
	Kind     Kind     `json:"kind"`
	Blocks   Blocking `json:"blocks,omitempty"`
	Permit   bool     `json:"permit,omitempty"`  // Allow and Ask control the agent's own permission prompt
	Context  bool     `json:"context,omitempty"` // hooks can add text to the model's context
	Changes  []Change `json:"changes,omitempty"`
	FailOpen bool     `json:"fail_open,omitempty"` // a hook failure is always fail open, regardless of on_error
	Stdout   string   `json:"stdout,omitempty"`    // what plain text of a hook program is: context, summary, or nothing
	MaxStops int      `json:"max_stops,omitempty"` // consecutive Blocks after which the agent may stop; 0 = no limit
}

// contracts has one row per event, in the order of an agent's life. It is unexported because a
// package that could change a row could disable guards for the whole process.
var contracts = []Contract{
	{Kind: GatewayStart, FailOpen: true},
	{Kind: GatewayStop, FailOpen: true},
	{Kind: SessionStart, Context: true, FailOpen: true, Stdout: "context"},
	{Kind: SessionEnd, FailOpen: true},
	{Kind: PromptBefore, Blocks: BlockingAction, Context: true, Changes: []Change{{Field: FieldPrompt}}, Stdout: "context"},
	{Kind: AgentBefore, Context: true, Changes: []Change{{Field: FieldSystem}, {Field: FieldModel}}, Stdout: "context"},
	{Kind: AgentAfter, Blocks: BlockingStop, Context: true, Changes: []Change{{Field: FieldClear, Merge: mergeOr}}, FailOpen: true, MaxStops: MaxStops},
	{Kind: AgentFailed, FailOpen: true},
	{Kind: ModelBefore, Blocks: BlockingAction, Changes: []Change{{Field: FieldRequest}, {Field: FieldResponse}}},
	{Kind: ModelAfter, Blocks: BlockingFeedback, Changes: []Change{{Field: FieldResponse}}},
	{Kind: ToolsetBefore, Changes: []Change{{Field: FieldTools, Merge: mergeIntersect}, {Field: FieldMode, Merge: mergeStrictest}}},
	{Kind: ToolBefore, Blocks: BlockingAction, Permit: true, Context: true, Changes: []Change{{Field: FieldInput}, {Field: FieldOutput}}},
	{Kind: PermissionBefore, Blocks: BlockingAction, Permit: true, Changes: []Change{{Field: FieldInput}}},
	{Kind: PermissionDenied, FailOpen: true},
	{Kind: ToolAfter, Blocks: BlockingFeedback, Context: true, Changes: []Change{{Field: FieldOutput}, {Field: FieldNext}}},
	{Kind: ToolFailed, Blocks: BlockingFeedback, Context: true, Changes: []Change{{Field: FieldOutput}}},
	{Kind: ToolBatchAfter, Blocks: BlockingAction, Context: true},
	{Kind: TranscriptBefore, Blocks: BlockingAction, Changes: []Change{{Field: FieldMessage}}},
	{Kind: ResponseBefore, Blocks: BlockingAction, Changes: []Change{{Field: FieldResponse}}},
	{Kind: MessageReceived, Blocks: BlockingAction}, // the agent does not get the message; no known agent with hook programs honors it
	{Kind: MessageBefore, Blocks: BlockingAction, Changes: []Change{{Field: FieldText}}},
	{Kind: MessageSent, FailOpen: true},
	{Kind: CompactBefore, Blocks: BlockingAction, Context: true, FailOpen: true},
	{Kind: CompactAfter, Changes: []Change{{Field: FieldSummary, Merge: mergeJoin}}, FailOpen: true, Stdout: "summary"},
	{Kind: SubagentStart, Blocks: BlockingAction, Context: true, FailOpen: true, Stdout: "context"},
	{Kind: SubagentAfter, Blocks: BlockingStop, Context: true, FailOpen: true, MaxStops: MaxStops},
	{Kind: TaskBefore, Blocks: BlockingAction},
	{Kind: TaskAfter, Blocks: BlockingAction},
	{Kind: NotificationSent, FailOpen: true},
	{Kind: ConfigBefore, Blocks: BlockingAction},
	{Kind: ElicitationBefore, Blocks: BlockingAction, Changes: []Change{{Field: FieldAnswer}}},
}

// Contracts returns all Contracts, in the order of an agent's life.
func Contracts() []Contract {
	all := make([]Contract, len(contracts))
	for i := range contracts {
		all[i] = contracts[i].clone()
	}
	return all
}

// ContractOf returns the Contract of an event, false for native and unknown kinds.
func ContractOf(k Kind) (Contract, bool) {
	c := contractOf(k)
	if c == nil {
		return Contract{}, false
	}
	return c.clone(), true
}

// contractOf returns the row of an event, or nil.
func contractOf(k Kind) *Contract {
	for i := range contracts {
		if contracts[i].Kind == k {
			return &contracts[i]
		}
	}
	return nil
}

func (c *Contract) clone() Contract {
	own := *c
	own.Changes = slices.Clone(c.Changes)
	return own
}

// observed is the Contract of an event without a row in the table: hooks can only observe it, and
// their failures are fail open.
var observed = Contract{FailOpen: true}

// Contract returns the Contract of the event; native ones have it in Terms.
func (ev *Event) Contract() Contract { return ev.contract().clone() }

// contract is like Contract. It is never nil.
func (ev *Event) contract() *Contract {
	if ev.Kind.Native() {
		if ev.Terms != nil && ev.Terms.Contract != nil {
			return ev.Terms.Contract
		}
		return &observed
	}
	if c := contractOf(ev.Kind); c != nil {
		return c
	}
	return &observed
}

// Permits reports whether the Contract lets hooks change f.
func (c *Contract) Permits(f Field) bool {
	_, ok := c.change(f)
	return ok
}

func (c *Contract) change(f Field) (Change, bool) {
	for _, ch := range c.Changes {
		if ch.Field == f.stored() {
			return ch, true
		}
	}
	return Change{}, false
}

// Terms are the conditions of an event: the effects that its agent permits hooks and how long it
// waits, which a dialect sets, and the answer.
type Terms struct {
	Verdict  *Verdict      // the final answer, for observing hooks; see Event.Verdict
	Contract *Contract     // native events only: the permitted decisions and changes; nil = hooks can only observe
	Can      *Can          // the parts of a Verdict that the agent supports; nil = all that the Contract permits
	Budget   time.Duration // time limit for all steps together; 0 = only the context limits them

	// Unread is why the event could not be read: every hook for its Kind, or for any if it is empty, fails.
	Unread error

	// Late, if it is not nil, is called before Fire returns. Each observing hook sends one HookRun
	// when it ends, except hooks of Options.Background; then the channel is closed.
	Late func(runs <-chan HookRun)
}

// Can returns the effects that the agent supports; nil = all of the Contract.
func (ev *Event) Can() *Can {
	if ev.Terms == nil {
		return nil
	}
	return ev.Terms.Can
}

// Can lists the parts of a Verdict that an agent supports. Others become the next
// stricter part, and Verdict.Unsupported lists them.
type Can struct {
	Block   bool     `json:"block,omitempty"`
	Ask     bool     `json:"ask,omitempty"`
	Allow   bool     `json:"allow,omitempty"`
	Halt    bool     `json:"halt,omitempty"`
	Context bool     `json:"context,omitempty"`
	Message bool     `json:"message,omitempty"`
	Change  []Field  `json:"change,omitempty"`
	Beside  Decision `json:"beside,omitempty"`  // the agent accepts changes only together with this Decision; None = always
	Merges  bool     `json:"merges,omitempty"`  // the agent merges a new tool input into the old one, so no member can be removed
	Keeps   bool     `json:"keeps,omitempty"`   // a feedback Block is added to the tool's output, which stays visible
	Members []string `json:"members,omitempty"` // members of the input that the agent takes over; nil = all
}

// takes reports whether the agent uses exactly the new tool input if a reply replaces the old
// one. was is the old input, now is the new one.
func (c *Can) takes(was, now json.RawMessage) bool {
	if !rawjson.IsObject(now) {
		return false // the agent would use the old input
	}
	if !c.Merges && c.Members == nil {
		return true
	}
	before, old := lastMembers(was)
	after, kept := lastMembers(now)
	for _, m := range before {
		if _, stays := kept[m.Name]; !stays {
			return false
		}
	}
	for _, m := range after {
		at, known := old[m.Name]
		changed := !known || !rawjson.Equal(before[at].Value, m.Value)
		if changed && (c.Merges && strings.Contains(m.Name, ".") || c.Members != nil && !slices.Contains(c.Members, m.Name)) {
			return false
		}
	}
	return true
}
