package agenthooks

import (
	"encoding/json"
	"strings"
	"testing"
)

// complete is a context of each point with only the required members.
var complete = map[string]string{
	"agent_startup":   `"agent_init":{"tools_registered":["t"]},"target":{"tools_registered":["t"]}`,
	"input":           `"input":{"content":"hi","role":"user"},"target":{"content":"hi","role":"user"}`,
	"pre_model_call":  `"model":{"id":"m"},"messages":[{"role":"user","content":"hi"}],"target":[{"role":"user","content":"hi"}]`,
	"post_model_call": `"model":{"id":"m"},"response":{"content":null,"tool_calls":[],"finish_reason":"stop"},"target":{}`,
	"pre_tool_call":   `"tool_call":{"id":"c","name":"t","args":{}},"target":{}`,
	"post_tool_call":  `"tool_call":{"id":"c","name":"t","args":{}},"tool_result":{"value":null,"is_error":false},"target":null`,
	"output":          `"output":{"content":"hi"},"target":{"content":"hi"}`,
	"agent_shutdown":  `"summary":{"reason":"completed"},"target":{"reason":"completed"}`,
}

func contextOf(point string) string {
	return `{"spec":"agent-hooks/0.1","interception_point":"` + point + `","timestamp":"2026-01-02T03:04:05Z","sequence":0,` +
		`"agent":{"id":"a","framework":"f"},"session":{"id":"s"},` + complete[point] + `}`
}

// Each member that a point requires is an error if it is missing, and changes the identity. No
// other member does either.
func TestContexts(t *testing.T) {
	t.Parallel()
	for i := range points {
		p := &points[i]
		raw := contextOf(p.name)
		if err := CheckContext(json.RawMessage(raw)); err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		tree, err := parseContext(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		identity, err := identify(tree)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		for _, path := range []string{"extensions.own.x", "agent.version", "session.turn", "tenant.id", "trace.trace_id", "tool_call.content_hash"} {
			if more, err := identify(put(tree, path, json.Number("9007199254740993"))); err != nil || more != identity {
				t.Errorf("%s: with %s the identity is %s, %v", p.name, path, more, err)
			}
		}
		for _, fields := range [][]field{common, p.fields} {
			for _, f := range fields {
				_, err := checkContext(without(tree, f.path))
				if err == nil || !strings.Contains(err.Error(), f.path) {
					t.Errorf("%s without %s: %v", p.name, f.path, err)
				}
				if _, err := identify(without(tree, f.path)); err == nil {
					t.Errorf("%s without %s has an identity", p.name, f.path)
				}
				if other, err := identify(put(tree, f.path, "other")); err == nil && other == identity {
					t.Errorf("%s: %s does not count for the identity", p.name, f.path)
				}
			}
		}
	}
}

func without(tree map[string]any, path string) map[string]any {
	name, rest, more := strings.Cut(path, ".")
	copied := put(tree, name, nil)
	if !more {
		delete(copied, name)
		return copied
	}
	inner, _ := tree[name].(map[string]any)
	copied[name] = without(inner, rest)
	return copied
}

func TestBrokenContexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ point, old, now, path string }{
		{"input", "agent-hooks/0.1", "agent-hooks/1", "spec"},
		{"input", `"interception_point":"input"`, `"interception_point":"tool"`, "interception_point"},
		{"input", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "timestamp"},
		{"input", "2026-01-02T03:04:05Z", "yesterday", "timestamp"},
		{"input", `"sequence":0`, `"sequence":-1`, "sequence"},
		{"input", `"sequence":0`, `"sequence":0.5`, "sequence"},
		{"input", `"framework":"f"`, `"framework":"My Framework"`, "agent.framework"},
		{"input", `"session":{"id":"s"}`, `"session":{"id":""}`, "session.id"},
		{"input", `"role":"user"},"target"`, `"role":"assistant"},"target"`, "input.role"},
		{"input", `"content":"hi","role":"user"},"target"`, `"content":[],"role":"user"},"target"`, "input.content"},
		{"agent_startup", `"tools_registered":["t"]},"target"`, `"tools_registered":[1]},"target"`, "agent_init.tools_registered"},
		{"pre_model_call", `"messages":[{"role":"user","content":"hi"}]`, `"messages":[{"role":"user"}]`, "messages"},
		{"post_model_call", `"tool_calls":[]`, `"tool_calls":[{"id":"c","name":"t","args":"x"}]`, "response.tool_calls"},
		{"post_model_call", `"content":null`, `"content":1`, "response.content"},
		{"pre_tool_call", `"args":{}`, `"args":[]`, "tool_call.args"},
		{"post_tool_call", `"is_error":false`, `"is_error":0`, "tool_result.is_error"},
		{"agent_shutdown", `"reason":"completed"},"target"`, `"reason":"exit"},"target"`, "summary.reason"},
	} {
		raw := strings.Replace(contextOf(c.point), c.old, c.now, 1)
		if raw == contextOf(c.point) {
			t.Fatalf("%s has no %s", c.point, c.old)
		}
		if err := CheckContext(json.RawMessage(raw)); err == nil || !strings.HasPrefix(err.Error(), c.path+": ") {
			t.Errorf("%s with %s: %v, want an error about %s", c.point, c.now, err, c.path)
		}
	}
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	for number, fits := range map[string]bool{
		"9007199254740991": true, "-9007199254740991": true, "9007199254740992": false, "-9007199254740992": false,
		"9223372036854775807": false, "123456789012345678901234567890": false, "9007199254740993.0": true, "1e21": true, "0": true, "-0": true,
	} {
		raw := strings.Replace(contextOf("pre_tool_call"), `"args":{}`, `"args":{"list":[`+number+`]}`, 1)
		_, err := JCS().Identify(json.RawMessage(raw))
		if (err == nil) != fits {
			t.Errorf("%s: %v", number, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "tool_call.args.list[0]") || strings.Contains(err.Error(), number)) {
			t.Errorf("%s: the error is %q, want the place and not the value", number, err)
		}
	}
}

// No input panics as a context, and a context with an identity is valid.
func FuzzContext(f *testing.F) {
	for point := range complete {
		f.Add([]byte(contextOf(point)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := CheckContext(raw)
		if _, identified := JCS().Identify(raw); identified == nil && err != nil {
			t.Fatalf("%q has an identity and is none: %v", raw, err)
		}
	})
}
