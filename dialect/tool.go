package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The tables of this package are literals without calls and without maps. The compiler then lays
// them out as static data, even without inlining, and a starting hook has no tables to build. A
// patch has two facts: the files that it names are written, and its text is content.

// readTool reads a call from the members tool_name, tool_input and tool_use_id. A call with an
// unreadable name or input is an error, because every guard would miss it.
func readTool(tools []ToolRow, call map[string]json.RawMessage, mcp *grapnel.MCP) (*grapnel.Tool, error) {
	name, ok := rawjson.Unquote(call["tool_name"])
	switch {
	case present(call["tool_name"]) == nil, ok && name == "":
		return nil, errors.New("it does not name its tool (tool_name)")
	case !ok:
		return nil, errors.New("tool_name is not a string")
	}
	input, err := readInput("tool_input", call["tool_input"])
	if err != nil {
		return nil, err
	}
	t := &grapnel.Tool{ID: text(call["tool_use_id"]), Name: name, MCP: mcp, Input: input}
	t.Class, t.Facts = classify(tools, t)
	t.Derive()
	return t, nil
}

// readCalls reads the calls of a batch.
func readCalls(raw json.RawMessage, read func(call map[string]json.RawMessage) (*grapnel.Tool, error)) ([]grapnel.Tool, error) {
	if raw == nil {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("tool_calls is %s, not an array", kindOf(raw))
	}
	calls := make([]grapnel.Tool, 0, len(list))
	for i, item := range list {
		members := split(item)
		t, err := read(members)
		if !rawjson.IsObject(item) {
			err = errors.New("it is not an object")
		}
		if err != nil {
			return nil, fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		t.Output = present(members["tool_response"])
		calls = append(calls, *t)
	}
	return calls, nil
}

func classify(tools []ToolRow, t *grapnel.Tool) (grapnel.Class, []grapnel.Fact) {
	class := grapnel.ClassMCP
	if t.MCP == nil { // an MCP server may name its tool Bash; that does not make it a shell
		class = grapnel.ClassOther
		for i := range tools {
			if tools[i].Native == t.Name {
				return tools[i].Class, slices.Clone(tools[i].Facts) // hooks receive the event, so they must not share the table
			}
		}
	}
	return class, t.UsualFacts()
}

// judgeable returns an error if a pending call has a command or a path to write that is not a
// string, because guards could not check it.
func judgeable(t *grapnel.Tool) error {
	switch {
	case t == nil:
		return nil
	case t.Class == grapnel.ClassShell && len(t.Commands) == 0:
	case (t.Class == grapnel.ClassWrite || t.Class == grapnel.ClassEdit) && len(t.Paths) == 0:
	default: // guards have something to check, and the input may be long
		return nil
	}
	input := split(t.Input)
	for _, fact := range t.Facts {
		name := strings.TrimPrefix(fact.At, "/")
		raw := present(input[name])
		if _, isText := rawjson.Unquote(raw); raw != nil && !isText && (fact.Field == grapnel.FieldCommand || fact.Use == grapnel.UseWrite) {
			return fmt.Errorf("%s in the input of %s is %s, not a string", name, t.Name, kindOf(raw))
		}
	}
	return nil
}

// readInput returns a tool's input as an object. Some agents send it as a string that holds the
// object.
func readInput(name string, raw json.RawMessage) (json.RawMessage, error) {
	raw = present(raw)
	if raw == nil || rawjson.IsObject(raw) {
		return raw, nil
	}
	if inner, ok := rawjson.Unquote(raw); ok {
		if object := trim([]byte(inner)); rawjson.IsObject(object) && json.Valid(object) {
			return object, nil
		}
		return nil, fmt.Errorf("%s is a string that does not hold a JSON object", name)
	}
	return nil, fmt.Errorf("%s is %s, not an object", name, kindOf(raw))
}

// inputAs writes a changed input in the form in which the agent sent the original.
func inputAs(ev *grapnel.Event, input json.RawMessage) json.RawMessage {
	return asSent(split(ev.Native)["tool_input"], input)
}

// kindOf names the type of a JSON value.
func kindOf(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "a string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case raw[0] == 't', raw[0] == 'f':
		return "a boolean"
	case raw[0] == 'n':
		return "null"
	default:
		return "a number"
	}
}

// wantText returns a member that guards check, or an error when it is present but not a string.
func wantText(top map[string]json.RawMessage, name string) (string, error) {
	raw := present(top[name])
	s, ok := rawjson.Unquote(raw)
	if raw != nil && !ok {
		return "", fmt.Errorf("%s is %s, not a string", name, kindOf(raw))
	}
	return s, nil
}
