package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Request is one HTTP request the server received, and what it made of it.
type Request struct {
	Method string
	Path   string          // without the query
	Body   json.RawMessage // as sent; nil when there was none or it was not JSON

	Main    bool         // a turn of an agent's loop: tools were offered. Others are side calls
	Step    int          // the step of the plan it was answered with, -1 if none
	Roles   []string     // the roles of its messages, in order
	Results []ToolResult // every tool result in its history, in order
	Texts   []string     // its messages part by part, each as "role: text", calls and results included

	// Problem says why the server had no answer: an unknown path, an
	// unreadable body, a request meant for another host. "" means answered.
	Problem string
}

// A ToolResult is what the model was told about one of its tool calls.
type ToolResult struct {
	ID      string // of the call, as the server issued it
	Tool    string // the agent's name of the tool
	Input   string // JSON, as it stands in the history: an agent may show a rewrite here
	Text    string
	IsError bool // as marked by the agent; the protocols of OpenAI have no such mark
}

// String describes the request on one line, for the report of a failed test.
func (r Request) String() string {
	s := r.Method + " " + r.Path
	switch {
	case r.Problem != "":
		return s + ": " + r.Problem
	case r.Main:
		return fmt.Sprintf("%s: step %d, roles %s, %d tool results", s, r.Step, strings.Join(r.Roles, " "), len(r.Results))
	default:
		return s + ": side call"
	}
}

// A Log is a list of requests in the order they arrived.
type Log []Request

// MainRequests returns the turns of agents' loops. None means that no prompt
// reached the model.
func (l Log) MainRequests() Log {
	return slices.DeleteFunc(slices.Clone(l), func(r Request) bool { return !r.Main })
}

// Unknown returns the requests the server had no answer for. A test should fail
// when there are any: the agent speaks something the server does not, or it
// tried to reach the world outside.
func (l Log) Unknown() Log {
	return slices.DeleteFunc(slices.Clone(l), func(r Request) bool { return r.Problem == "" })
}

// ToolResults returns what the model was told about each tool call, once per
// call although every request repeats the history, in the order of first
// appearance. When an agent later tells it differently, the later text stands.
func (l Log) ToolResults() []ToolResult {
	var out []ToolResult
	at := map[string]int{}
	for _, r := range l {
		for _, res := range r.Results {
			if i, seen := at[res.ID]; seen {
				out[i] = res
				continue
			}
			at[res.ID] = len(out)
			out = append(out, res)
		}
	}
	return out
}

// Contains reports whether some text inside a request has marker in it: keys
// and values are looked at as decoded, so no escaping hides it.
func (l Log) Contains(marker string) bool { return l.Around(marker) != "" }

// Around returns the first text inside a request that has marker in it, with its
// nearest surroundings and the request it is in; "" when there is none. It says
// in the report of a failed test what Contains found.
func (l Log) Around(marker string) string {
	for _, r := range l {
		if r.Body == nil {
			continue
		}
		var v any
		if err := json.Unmarshal(r.Body, &v); err != nil {
			continue // Body is JSON by construction
		}
		if text, ok := textWith(v, marker); ok {
			at := strings.Index(text, marker)
			from, to := max(0, at-200), min(len(text), at+len(marker)+200)
			return fmt.Sprintf("%s: ...%s...", r, strings.ToValidUTF8(text[from:to], ""))
		}
	}
	return ""
}

// textWith returns a key or a string value inside v that contains marker.
func textWith(v any, marker string) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, strings.Contains(v, marker)
	case []any:
		for _, e := range v {
			if text, ok = textWith(e, marker); ok {
				return text, true
			}
		}
	case map[string]any:
		for k, e := range v {
			if strings.Contains(k, marker) {
				return k, true
			}
			if text, ok = textWith(e, marker); ok {
				return text, true
			}
		}
	}
	return "", false
}

// Transcript tells what was said, for the report of a failed test: a line for each
// request, and below it the texts that the main request before did not have yet.
func (l Log) Transcript() string {
	const width = 400
	var (
		lines  []string
		before []string
	)
	for _, r := range l {
		lines = append(lines, r.String())
		if !r.Main {
			continue
		}
		known := 0
		for known < min(len(before), len(r.Texts)) && before[known] == r.Texts[known] {
			known++
		}
		for _, text := range r.Texts[known:] {
			if len(text) > width {
				text = strings.ToValidUTF8(text[:width], "") + "..."
			}
			lines = append(lines, "\t"+strings.ReplaceAll(text, "\n", "\n\t"))
		}
		before = r.Texts
	}
	return strings.Join(lines, "\n")
}
