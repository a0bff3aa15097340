package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// How an agent applies a part of a verdict.
const (
	Native  = "native"     // the agent supports it
	AsBlock = "as a block" // unsupported: downgraded to a block
	AsHalt  = "as a halt"  // unsupported: downgraded to a halt, the only stricter verdict
	Not     = "not"        // unsupported, and there is no stricter verdict
)

// Words returns the words of a verdict, in the order of tables.
func Words() []string {
	return []string{"block", "ask", "allow", "rewrite", "replace", "answer", "context", "message", "halt"}
}

// Changed returns the field that a word changes at an event, or "" if the word changes none there.
func Changed(kind grapnel.Kind, word string) grapnel.Field {
	switch {
	case word == "rewrite" && (kind == grapnel.ToolBefore || kind == grapnel.PermissionBefore):
		return grapnel.FieldInput
	case word == "rewrite" && kind == grapnel.PromptBefore:
		return grapnel.FieldPrompt
	case word == "rewrite" && kind == grapnel.ModelBefore:
		return grapnel.FieldRequest
	case word == "rewrite" && kind == grapnel.MessageBefore:
		return grapnel.FieldText
	case word == "replace" && (kind == grapnel.ToolAfter || kind == grapnel.ToolFailed):
		return grapnel.FieldOutput
	case word == "replace" && (kind == grapnel.ModelAfter || kind == grapnel.ResponseBefore):
		return grapnel.FieldResponse
	case word == "answer" && kind == grapnel.ModelBefore:
		return grapnel.FieldResponse
	case word == "answer" && kind == grapnel.ToolBefore:
		return grapnel.FieldOutput
	}
	return ""
}

// Claim returns the promise of the tables for one word at one event of an agent: Native, AsBlock,
// AsHalt or Not, or "" if the word does not apply to the event. It uses the verdict of a real
// engine.
func Claim(d *dialect.Dialect, row *dialect.EventRow, word string) string {
	contract := row.Contract
	if contract == nil {
		c, ok := grapnel.ContractOf(row.Kind)
		if !ok {
			return ""
		}
		contract = &c
	}
	field := Changed(row.Kind, word)
	var out grapnel.Outcome
	applies := true
	switch word {
	case "block":
		out.Decision, applies = grapnel.Block, contract.Blocks != grapnel.BlockingNothing
	case "ask":
		out.Decision, applies = grapnel.Ask, contract.Permit
	case "allow":
		out.Decision, applies = grapnel.Allow, contract.Permit
	case "context":
		out.Context, applies = []string{"x"}, contract.Context
	case "message":
		out.Message = "x"
	case "halt":
		out.Halt, applies = "x", contract.Blocks != grapnel.BlockingNothing
	default:
		applies = field != "" && contract.Permits(field)
		out.Set = map[grapnel.Field]json.RawMessage{field: json.RawMessage(`{"command":"x"}`)}
		if field == grapnel.FieldPrompt || field == grapnel.FieldText {
			out.Set[field] = json.RawMessage(`"x"`)
		}
	}
	if !applies {
		return ""
	}
	can := row.Permits()
	can.Members = nil // they apply only to single tools
	ev := &grapnel.Event{
		Kind: row.Kind, Agent: grapnel.Agent{Name: d.Name}, Terms: &grapnel.Terms{Contract: row.Contract, Can: &can},
		Prompt: &grapnel.Prompt{Text: "y"}, Message: &grapnel.Message{Content: "y"}, Model: &grapnel.Model{Request: json.RawMessage(`{}`), Response: json.RawMessage(`{}`)},
	}
	if strings.HasPrefix(string(row.Kind), "tool.") || row.Kind == grapnel.PermissionBefore {
		ev.Tool = &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"command":"y"}`), Output: json.RawMessage(`{}`)}
	}
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: word, On: []grapnel.Kind{row.Kind}, Source: grapnel.Source{Scope: grapnel.ScopeUser},
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil }),
	}}, nil)
	if err != nil {
		return ""
	}
	v := engine.Fire(context.Background(), ev)
	switch {
	case slices.ContainsFunc(v.Unsupported, func(l string) bool { return strings.HasSuffix(l, "downgraded to block") }):
		return AsBlock
	case slices.ContainsFunc(v.Unsupported, func(l string) bool { return strings.HasSuffix(l, "downgraded to halt") }):
		return AsHalt
	case len(v.Unsupported) > 0:
		return Not
	}
	return Native
}
