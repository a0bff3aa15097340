package grapnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

// strictness ranks the parts of a reply by how strongly they restrict the agent, weakest first.
var strictness = map[grapnel.Blocking]map[string]int{
	grapnel.BlockingAction:   {"allow": -1, "": 0, "ask": 1, "block": 2, "halt": 3},
	grapnel.BlockingFeedback: {"": 0, "block": 1, "halt": 2},
	grapnel.BlockingStop:     {"": 0, "block": 1}, // a halt lets the agent stop, like no answer
	grapnel.BlockingNothing:  {"": 0, "halt": 1},
}

// supportedRank returns the rank of the strictest part of a Verdict that the agent supports.
func supportedRank(ranks map[string]int, v grapnel.Verdict, can grapnel.Can) int {
	rank, best := 0, false
	consider := func(word string, understood bool) {
		if r, known := ranks[word]; known && understood && (!best || r > rank) {
			rank, best = r, true
		}
	}
	switch v.Decision {
	case grapnel.Allow:
		consider("allow", can.Allow)
	case grapnel.Ask:
		consider("ask", can.Ask)
	case grapnel.Block:
		consider("block", can.Block)
	case grapnel.None:
	}
	if v.Halt != "" {
		consider("halt", can.Halt)
	}
	return rank
}

// TestDegradeIsNeverWeaker checks, for every combination of supported parts, that the reply is
// never weaker than the decision if the agent supports an equally strict part, and that every
// unsupported part is listed.
func TestDegradeIsNeverWeaker(t *testing.T) {
	t.Parallel()
	all := grapnel.Can{Block: true, Ask: true, Allow: true, Halt: true, Context: true, Message: true, Change: []grapnel.Field{
		grapnel.FieldInput, grapnel.FieldOutput, grapnel.FieldClear,
	}}
	changes := map[grapnel.Kind]grapnel.Outcome{
		grapnel.ToolBefore: setCommand("y"),
		grapnel.ToolAfter:  set(grapnel.FieldOutput, `"***"`),
		grapnel.AgentAfter: set(grapnel.FieldClear, `true`),
	}
	var out grapnel.Outcome
	engine := newEngine(t, nil, step("h", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil })))
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.AgentAfter, grapnel.SessionStart} {
		c, _ := grapnel.ContractOf(kind)
		ranks := strictness[c.Blocks]
		for bits := range 1 << 9 {
			bit := func(i int) bool { return bits>>i&1 == 1 }
			can := grapnel.Can{Block: bit(0), Ask: bit(1), Allow: bit(2), Halt: bit(3), Context: true, Message: true}
			if bit(4) {
				can.Change = all.Change
			}
			out = grapnel.Outcome{Decision: grapnel.Decision(bits >> 5 & 3)}
			if bit(7) {
				out.Halt = "stop"
			}
			if bit(8) {
				out.Set = changes[kind].Set
			}
			ev := event(kind)
			whole := engine.Fire(t.Context(), ev)
			ev.Terms = &grapnel.Terms{Can: &all}
			if v := engine.Fire(t.Context(), ev); v.Unsupported != nil || v.Decision != whole.Decision || v.Halt != whole.Halt || len(v.Changes) != len(whole.Changes) {
				t.Errorf("%s, %+v, agent can everything: %+v, want %+v", kind, out, v, whole)
			}
			ev.Terms = &grapnel.Terms{Can: &can}
			v := engine.Fire(t.Context(), ev)

			want, got := supportedRank(ranks, whole, all), supportedRank(ranks, v, can)
			if len(whole.Changes) > 0 && !bit(4) && c.Blocks == grapnel.BlockingAction {
				want = max(want, ranks["block"]) // or the agent runs an input that a hook wanted to change
			}
			if want < 0 && !can.Allow {
				want = 0
			}
			strictest := 0
			for word, understood := range map[string]bool{"ask": can.Ask, "block": can.Block, "halt": can.Halt} {
				if r, known := ranks[word]; known && understood {
					strictest = max(strictest, r)
				}
			}
			if got < want && strictest >= want {
				t.Errorf("%s, %+v, agent can %+v: told %d of %d: decision %v, halt %q, lost %q", kind, out, can, got, want, v.Decision, v.Halt, v.Unsupported)
			}
			if got < want && len(v.Unsupported) == 0 {
				t.Errorf("%s, %+v, agent can %+v: nothing is Unsupported, but it is told less", kind, out, can)
			}
			// An Allow approves the input with its changes, so both are sent or neither.
			if v.Decision == grapnel.Allow && len(v.Changes) != len(whole.Changes) {
				t.Errorf("%s, %+v, agent can %+v: allowed without the change", kind, out, can)
			}
			for field := range v.Changes {
				if !slices.Contains(can.Change, field) {
					t.Errorf("%s, %+v, agent can %+v: a change of %s is left", kind, out, can, field)
				}
			}
			if v.Halt != "" && !can.Halt || v.Decision == grapnel.Ask && !can.Ask || v.Decision == grapnel.Allow && !can.Allow {
				t.Errorf("%s, %+v, agent can %+v: decision %v, halt %q", kind, out, can, v.Decision, v.Halt)
			}
			if v.Decision == grapnel.Block && v.Reason() == "" {
				t.Errorf("%s, %+v, agent can %+v: a block without a reason", kind, out, can)
			}
		}
	}
}

func TestDegrade(t *testing.T) {
	t.Parallel()
	changed := setCommand("y")
	asked := setCommand("y")
	asked.Decision = grapnel.Ask
	tests := map[string]struct {
		kind        grapnel.Kind
		can         grapnel.Can
		out         grapnel.Outcome
		want        grapnel.Decision
		halt        string
		reason      string
		unsupported []string
	}{
		"rewrite to block": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true},
			changed, grapnel.Block, "",
			`tool.input must be changed, but test does not support that. Use this instead: {"command":"y"}`,
			[]string{"change of tool.input: downgraded to block"},
		},
		"rewrite to what is no call": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true, Change: []grapnel.Field{grapnel.FieldInput}},
			set(grapnel.FieldInput, `[1]`), grapnel.Block, "",
			`tool.input must be changed, but test does not support that. Use this instead: [1]`,
			[]string{"change of tool.input: downgraded to block"},
		},
		"rewrite to what is no request": {
			grapnel.ModelBefore,
			grapnel.Can{Block: true, Change: []grapnel.Field{grapnel.FieldRequest}},
			set(grapnel.FieldRequest, `0`), grapnel.Block, "",
			`request must be changed, but test does not support that. Use this instead: 0`,
			[]string{"change of request: downgraded to block"},
		},
		"rewrite to halt": {
			grapnel.ToolBefore,
			grapnel.Can{Halt: true},
			changed, grapnel.Block,
			`tool.input must be changed, but test does not support that. Use this instead: {"command":"y"}`,
			`tool.input must be changed, but test does not support that. Use this instead: {"command":"y"}`,
			[]string{"block: downgraded to halt", "change of tool.input: downgraded to block"},
		},
		"rewrite to nothing": {
			grapnel.ToolBefore, grapnel.Can{Ask: true}, changed, grapnel.None, "", "", []string{"change of tool.input: not sent"},
		},
		"ask to block": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true},
			grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"},
			grapnel.Block, "",
			"this needs the approval of a person, but test cannot ask for it. Tell the user, who can do it or change the policy. The question is: sure?",
			[]string{"ask: downgraded to block"},
		},
		"ask without a reason to halt": {
			grapnel.ToolBefore,
			grapnel.Can{Halt: true},
			grapnel.Outcome{Decision: grapnel.Ask},
			grapnel.Block,
			"this needs the approval of a person, but test cannot ask for it",
			"this needs the approval of a person, but test cannot ask for it",
			[]string{"ask: downgraded to block", "block: downgraded to halt"},
		},
		"ask with a change": {
			grapnel.ToolBefore,
			grapnel.Can{Ask: true, Block: true},
			asked, grapnel.Block, "",
			`tool.input must be changed, but test does not support that. Use this instead: {"command":"y"}`,
			[]string{"change of tool.input: downgraded to block"},
		},
		"what is blocked is not changed": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true, Change: []grapnel.Field{grapnel.FieldInput}},
			asked, grapnel.Block, "",
			"this needs the approval of a person, but test cannot ask for it",
			[]string{"ask: downgraded to block"},
		},
		"ask to nothing": {
			grapnel.ToolBefore,
			grapnel.Can{},
			grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"},
			grapnel.None, "", "",
			[]string{"ask: not sent"},
		},
		"allow to nothing": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true, Ask: true, Halt: true},
			grapnel.Outcome{Decision: grapnel.Allow},
			grapnel.None, "", "",
			[]string{"allow: not sent"},
		},
		"stop goes on in silence": {
			grapnel.AgentAfter,
			grapnel.Can{Halt: true},
			grapnel.Outcome{Decision: grapnel.Block, Reason: "go on"},
			grapnel.Block, "", "go on",
			[]string{"block: not sent"},
		},
		"block and halt to halt": {
			grapnel.ToolBefore,
			grapnel.Can{Halt: true},
			grapnel.Outcome{Decision: grapnel.Block, Reason: "no", Halt: "stop"},
			grapnel.Block, "stop", "no", nil,
		},
		"halt to block": {
			grapnel.ToolBefore,
			grapnel.Can{Block: true},
			grapnel.Outcome{Halt: "stop"},
			grapnel.Block, "", "stop",
			[]string{"halt: downgraded to block"},
		},
		"halt to feedback": {
			grapnel.ToolAfter,
			grapnel.Can{Block: true},
			grapnel.Outcome{Halt: "stop"},
			grapnel.Block, "", "stop",
			[]string{"halt: downgraded to block"},
		},
		"output to feedback": {
			grapnel.ToolAfter,
			grapnel.Can{Block: true},
			set(grapnel.FieldOutput, `"***"`), grapnel.Block, "",
			`tool.output must be changed, but test does not support that. Use this instead: ***`,
			[]string{"change of tool.output: downgraded to block"},
		},
		"output to nothing": {
			grapnel.ToolAfter,
			grapnel.Can{Halt: true},
			set(grapnel.FieldOutput, `"***"`), grapnel.None, "", "",
			[]string{"change of tool.output: not sent"},
		},
		"context and message": {
			grapnel.ToolAfter,
			grapnel.Can{},
			grapnel.Outcome{Context: []string{"c"}, Message: "m"},
			grapnel.None, "", "",
			[]string{"context: not sent", "message: not sent"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := event(tt.kind)
			ev.Terms = &grapnel.Terms{Can: &tt.can}
			v, rec := fire(t, ev, step("h", returns(tt.out)))
			if v.Decision != tt.want || v.Halt != tt.halt || v.Reason() != tt.reason {
				t.Errorf("decision %v, halt %q, reason %q, want %v, %q, %q", v.Decision, v.Halt, v.Reason(), tt.want, tt.halt, tt.reason)
			}
			if diff := cmp.Diff(tt.unsupported, v.Unsupported); diff != "" || !slices.Equal(v.Unsupported, rec.Unsupported) {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
			if v.Changes != nil || v.Context != nil || v.Messages != nil {
				t.Errorf("left in the Verdict: %v %q %q", v.Changes, v.Context, v.Messages)
			}
		})
	}
}

// TestDegradeCutsTheSuggestion checks that a long suggestion is visibly cut, and that an agent
// without a name is called "the agent".
func TestDegradeCutsTheSuggestion(t *testing.T) {
	t.Parallel()
	ev := event(grapnel.PromptBefore)
	ev.Agent.Name = ""
	ev.Terms = &grapnel.Terms{Can: &grapnel.Can{Block: true}}
	v, _ := fire(t, ev, rewrite("h", returns(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{
		grapnel.FieldPrompt: encoded(strings.Repeat("x", 5000)),
	}})))
	want := fmt.Sprintf("prompt must be changed, but the agent does not support that. Use this instead: %s… [grapnel: 3000 more bytes cut]", strings.Repeat("x", 2000))
	if v.Reason() != want {
		t.Errorf("reason %q", v.Reason())
	}
}

// TestAnAnswerInTheToolsPlaceIsABlock checks that a hook that answers instead of a tool is not
// treated as failed. If the agent does not support such answers, the tool does not run, and the
// model reads the answer as the reason.
func TestAnAnswerInTheToolsPlaceIsABlock(t *testing.T) {
	t.Parallel()
	answers := grapnel.Spec{Name: "cache", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Replace(grapnel.FieldOutput, "42")
	})}
	for name, tt := range map[string]struct {
		can         *grapnel.Can
		want        grapnel.Decision
		unsupported int
	}{
		"can":    {nil, grapnel.None, 0},
		"cannot": {&grapnel.Can{Block: true, Change: []grapnel.Field{grapnel.FieldInput}}, grapnel.Block, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := grapnel.New([]grapnel.Spec{answers}, nil)
			if err != nil {
				t.Fatal(err)
			}
			v := e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Terms: &grapnel.Terms{Can: tt.can}, Tool: &grapnel.Tool{Name: "sum", Input: json.RawMessage(`{}`)}})
			if output := string(v.Changes[grapnel.FieldOutput]); v.Decision != tt.want || len(v.Unsupported) != tt.unsupported || (output == `"42"`) == (tt.unsupported > 0) ||
				strings.HasSuffix(v.Reason(), "Use this result: 42") != (tt.unsupported > 0) {
				t.Errorf("%v because %q, changes %s, lost %q", v.Decision, v.Reason(), v.Changes, v.Unsupported)
			}
		})
	}
}
