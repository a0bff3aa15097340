package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Request is one HTTP request to the server, with its interpretation.
type Request struct {
	Method string
	Path   string          // without the query
	Body   json.RawMessage // as sent; nil if empty or not JSON

	Main    bool         // a turn of an agent's loop: the request offers tools. Other requests are side calls
	Step    int          // index of the plan's step in the response, -1 if none
	Roles   []string     // the roles of its messages, in order
	Results []ToolResult // every tool result in its history, in order
	Texts   []string     // its messages part by part, each as "role: text", calls and results included

	// Problem is the reason why the server could not answer: an unknown path, an unreadable body,
	// or a request for another host. "" = answered.
	Problem string
}

// A ToolResult is the result of a tool call as the model received it.
type ToolResult struct {
	ID      string // of the call, as issued by the server
	Tool    string // the agent's name of the tool
	Input   string // JSON from the history, where an agent may show a rewritten input
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

// A Log is a list of requests in the order in which they arrived.
type Log []Request

// MainRequests returns the turns of agents' loops. If it is empty, no prompt reached the model.
func (l Log) MainRequests() Log {
	return slices.DeleteFunc(slices.Clone(l), func(r Request) bool { return !r.Main })
}

// Unknown returns the requests that the server could not answer. A test should fail if there are
// any: the agent used a request that the server does not support, or tried to reach another host.
func (l Log) Unknown() Log {
	return slices.DeleteFunc(slices.Clone(l), func(r Request) bool { return r.Problem == "" })
}

// ToolResults returns the result of each tool call, in the order of first appearance. Requests
// repeat the history, but each call is listed once. If a later request has a different text for a
// call, the later text is returned.
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

// Contains reports whether any text in a request contains marker. It searches decoded keys and
// values, so that JSON escapes do not hide the marker.
func (l Log) Contains(marker string) bool { return l.Around(marker) != "" }

// Around returns the first text in a request that contains marker, with some surrounding text and
// the request. It returns "" if no request contains marker. Reports of failed tests use it to show
// the match of Contains.
func (l Log) Around(marker string) string {
	for _, r := range l {
		if r.Body == nil {
			continue
		}
		var v any
		if err := json.Unmarshal(r.Body, &v); err != nil {
			continue // Body is always valid JSON
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

// Transcript returns the conversation for the report of a failed test: a line for each request,
// followed by the texts that the previous main request did not contain.
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
