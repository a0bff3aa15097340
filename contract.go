package grapnel

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Blocking says what a Block does to an event.
type Blocking string

// What a Block does.
const (
	BlockNothing  Blocking = ""         // it cannot be stopped: a Block is illegal
	BlockAction   Blocking = "action"   // it does not happen
	BlockStop     Blocking = "stop"     // what is blocked is the stop: the agent goes on, because of the reason
	BlockFeedback Blocking = "feedback" // it has happened; the reason is told to the model
)

// Stdout says what plain text on the standard output of a command means.
type Stdout string

// What plain text means.
const (
	StdoutNothing Stdout = ""
	StdoutContext Stdout = "context"
	StdoutSummary Stdout = "summary"
)

// Merge says how changes of one field by several hooks become one.
type Merge string

// The merges.
const (
	MergeChain     Merge = ""          // each sees what the one before left; the last wins
	MergeJoin      Merge = "join"      // texts are joined with a newline
	MergeIntersect Merge = "intersect" // lists are narrowed to what all allow
	MergeUnion     Merge = "union"     // lists are widened to what any allows, in order of name
	MergeOr        Merge = "or"        // true once anybody says true
	MergeStrictest Merge = "strictest" // of none, any and auto, in this order
)

// Change is a field that an event permits to change, and how.
type Change struct {
	Field Field `json:"field"`
	Merge Merge `json:"merge,omitempty"`
}

// A Contract is what an event permits.
type Contract struct {
	Kind     Kind     `json:"kind"`
	Blocks   Blocking `json:"blocks,omitempty"`
	Permit   bool     `json:"permit,omitempty"`  // Allow and Ask mean the agent's own permission prompt
	Context  bool     `json:"context,omitempty"` // text can be added to what the model sees
	Changes  []Change `json:"changes,omitempty"`
	FailOpen bool     `json:"fail_open,omitempty"` // a failure always counts as open, whatever on_error says
	Stdout   Stdout   `json:"stdout,omitempty"`
	MaxStops int      `json:"max_stops,omitempty"` // blocks in a row after which the agent may stop; 0 = no limit
}

// MaxStops is how often in a row an agent may be sent on instead of stopping.
// Claude Code lifts the ninth block by itself; other agents would go on for ever.
const MaxStops = 8

// contracts has one row per event, in the order of an agent's life. No other package
// reaches it: who could change a row would switch guards off for the whole process.
var contracts = []Contract{
	{Kind: GatewayStart, FailOpen: true},
	{Kind: GatewayStop, FailOpen: true},
	{Kind: SessionStart, Context: true, FailOpen: true, Stdout: StdoutContext},
	{Kind: SessionEnd, FailOpen: true},
	{Kind: PromptBefore, Blocks: BlockAction, Context: true, Changes: []Change{{Field: FieldPrompt}}, Stdout: StdoutContext},
	{Kind: AgentBefore, Context: true, Changes: []Change{{Field: FieldSystem}, {Field: FieldModel}}, Stdout: StdoutContext},
	{Kind: AgentAfter, Blocks: BlockStop, Context: true, Changes: []Change{{Field: FieldClear, Merge: MergeOr}}, FailOpen: true, MaxStops: MaxStops},
	{Kind: AgentFailed, FailOpen: true},
	{Kind: ModelBefore, Blocks: BlockAction, Changes: []Change{{Field: FieldRequest}, {Field: FieldResponse}}},
	{Kind: ModelAfter, Blocks: BlockFeedback, Changes: []Change{{Field: FieldResponse}}},
	{Kind: ToolsetBefore, Changes: []Change{{Field: FieldTools, Merge: MergeIntersect}, {Field: FieldMode, Merge: MergeStrictest}}},
	{Kind: ToolBefore, Blocks: BlockAction, Permit: true, Changes: []Change{{Field: FieldInput}, {Field: FieldOutput}}},
	{Kind: PermissionBefore, Blocks: BlockAction, Permit: true, Changes: []Change{{Field: FieldInput}}},
	{Kind: PermissionDenied, FailOpen: true},
	{Kind: ToolAfter, Blocks: BlockFeedback, Context: true, Changes: []Change{{Field: FieldOutput}, {Field: FieldNext}}},
	{Kind: ToolFailed, Blocks: BlockFeedback, Context: true, Changes: []Change{{Field: FieldOutput}}},
	{Kind: ToolBatchAfter, Blocks: BlockAction, Context: true},
	{Kind: TranscriptBefore, Blocks: BlockAction, Changes: []Change{{Field: FieldMessage}}},
	{Kind: ResponseBefore, Blocks: BlockAction, Changes: []Change{{Field: FieldResponse}}},
	{Kind: MessageReceived, FailOpen: true},
	{Kind: MessageBefore, Blocks: BlockAction, Changes: []Change{{Field: FieldText}}},
	{Kind: MessageSent, FailOpen: true},
	{Kind: CompactBefore, Blocks: BlockAction, Context: true, FailOpen: true},
	{Kind: CompactAfter, Changes: []Change{{Field: FieldSummary, Merge: MergeJoin}}, FailOpen: true, Stdout: StdoutSummary},
	{Kind: SubagentStart, Blocks: BlockAction, Context: true, FailOpen: true, Stdout: StdoutContext},
	{Kind: SubagentAfter, Blocks: BlockStop, Context: true, FailOpen: true, MaxStops: MaxStops},
	{Kind: TaskBefore, Blocks: BlockAction},
	{Kind: TaskAfter, Blocks: BlockAction},
	{Kind: NotificationSent, FailOpen: true},
	{Kind: ConfigBefore, Blocks: BlockAction},
	{Kind: ElicitationBefore, Blocks: BlockAction, Changes: []Change{{Field: FieldAnswer}}},
}

// Contracts returns the Contract of each event, in the order of an agent's life. The
// result is the caller's.
func Contracts() []Contract {
	all := make([]Contract, len(contracts))
	for i := range contracts {
		all[i] = contracts[i].clone()
	}
	return all
}

// ContractOf returns the Contract of an event. A native event, and a kind that does not
// exist, have none. The result is the caller's.
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

// observed is the Contract of an event that has none: nothing can be decided or
// changed, and nothing is lost.
var observed = Contract{FailOpen: true}

// contract is what governs this event.
func (ev *Event) contract() *Contract {
	if ev.Kind.Native() {
		if ev.Contract != nil {
			return ev.Contract
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

// Can is what one agent can be told on one event, where that is less than the
// Contract permits. What it lacks degrades to the stricter thing it has, and the
// Verdict's Unsupported says so.
type Can struct {
	Block   bool     `json:"block,omitempty"`
	Ask     bool     `json:"ask,omitempty"`
	Allow   bool     `json:"allow,omitempty"`
	Halt    bool     `json:"halt,omitempty"`
	Context bool     `json:"context,omitempty"`
	Message bool     `json:"message,omitempty"`
	Change  []Field  `json:"change,omitempty"`
	Beside  Decision `json:"beside,omitempty"` // changes are told only beside this Decision (a Halt counts as a Block); None = always

	// Merges: the agent lays a new tool input over the old one, so that nothing can be
	// taken out of it, and a name with a dot may be taken for a path. Members are those of the input that it takes over; nil = all.
	Merges bool `json:"merges,omitempty"`
	// Keeps: a Block that is feedback stands beside the tool's output and not in its place,
	// so it hides nothing.
	Keeps   bool     `json:"keeps,omitempty"`
	Members []string `json:"members,omitempty"`
}

// takes reports whether the agent, told to call a tool with now instead of was, calls
// it with exactly that.
func (c *Can) takes(was, now json.RawMessage) bool {
	if !isObject(now) {
		return false // it would be called as it was
	}
	if !c.Merges && c.Members == nil {
		return true
	}
	before, old := lastMembers(was)
	after, kept := lastMembers(now)
	for _, m := range before {
		if _, stays := kept[m.key]; !stays {
			return false
		}
	}
	for _, m := range after {
		at, known := old[m.key]
		changed := !known || !rawjson.Equal(before[at].value, m.value)
		if changed && (c.Merges && strings.Contains(m.key, ".") || c.Members != nil && !slices.Contains(c.Members, m.key)) {
			return false
		}
	}
	return true
}
