package agenthooks

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func TestGate(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"nothing": ``, "no JSON": `{`, "two values": `{"decision":"allow"}{}`, "a list": `[]`, "a text": `"allow"`, "null": `null`, "twice": `{"decision":"deny","decision":"allow"}`,
		"no decision": `{}`, "an old decision": `{"decision":"escalate"}`, "another case": `{"decision":"Allow"}`, "decision null": `{"decision":null}`,
		"reason": `{"decision":"deny","reason":1}`, "reason of the host": `{"decision":"deny","reason":"host_error:x"}`,
		"message": `{"decision":"deny","message":{}}`, "warnings": `{"decision":"allow","warnings":"x"}`, "warning": `{"decision":"allow","warnings":[null]}`,
		"warning reason": `{"decision":"allow","warnings":[{"reason":1}]}`, "warning of the host": `{"decision":"allow","warnings":[{"reason":"host_error:"}]}`,
		"approval": `{"decision":"deny","approval":[]}`, "approval beside allow": `{"decision":"allow","approval":{}}`,
		"approval beside transform": `{"decision":"transform","approval":{},"transform":{"path":"$target"}}`,
		"no transform":              `{"decision":"transform"}`, "transform null": `{"decision":"transform","transform":null}`, "transform beside deny": `{"decision":"deny","transform":{"path":"$target"}}`,
		"no path": `{"decision":"transform","transform":{"value":1}}`, "evidence": `{"decision":"allow","evidence":1}`, "artefact": `{"decision":"allow","evidence":{"artefact":1}}`,
		"pointers": `{"decision":"allow","evidence":{"verification_pointers":[]}}`, "pointer": `{"decision":"allow","evidence":{"verification_pointers":{"a":null}}}`,
		"evidence too long": `{"decision":"allow","evidence":{"artefact":"` + strings.Repeat("x", maxEvidence-len(`{"artefact":""}`)+1) + `"}}`,
		"labels":            `{"decision":"allow","result_labels":{}}`, "label": `{"decision":"allow","result_labels":[null]}`, "half a surrogate": `{"decision":"allow","reason":"\ud800"}`,
	} {
		if v := gate(json.RawMessage(raw)); v.Reason != reasonVerdictInvalid || v.permits() || v.Message == "" {
			t.Errorf("%s: gate(%.60s) = %+v, want %s", name, raw, v, reasonVerdictInvalid)
		}
	}
	for raw, want := range map[string]Verdict{
		`{"decision":"allow"}`: {Decision: Allow},
		`{"decision":"deny","reason":null,"approval":{"who":1},"own":{}}`:                                       {Decision: Deny, Approval: json.RawMessage(`{"who":1}`)},
		`{"decision":"transform","transform":{"path":"nonsense"}}`:                                              {Decision: Transform, Transform: &Change{Path: "nonsense", Value: json.RawMessage("null")}},
		`{"decision":"allow","warnings":[{}],"evidence":{"verification_pointers":{"a":"urn:x"}},"message":"m"}`: {Decision: Allow, Warnings: []Warning{{}}, Message: "m", Evidence: json.RawMessage(`{"verification_pointers":{"a":"urn:x"}}`)},
		`{"decision":"allow","result_labels":["a","a"]}`:                                                        {Decision: Allow, ResultLabels: []string{"a", "a"}},
	} {
		if got := gate(json.RawMessage(raw)); !reflect.DeepEqual(got, want) {
			t.Errorf("gate(%s) = %+v, want %+v", raw, got, want)
		}
	}
}

// For any answer of an interceptor, the gate returns a verdict, which is the same after it is
// written and read again.
func FuzzGate(f *testing.F) {
	f.Add([]byte(`{"decision":"deny","approval":{},"reason":"x","warnings":[{"message":"m"}]}`))
	f.Add([]byte(`{"decision":"transform","transform":{"path":"$target.a","value":[1e999]},"evidence":{"artefact":"a"}}`))
	f.Add([]byte(`{"decision":"allow","result_labels":["a"],"reason":"host_error:"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v := gate(raw)
		if v.Decision != Allow && v.Decision != Deny && v.Decision != Transform || (v.Decision == Transform) != (v.Transform != nil) {
			t.Fatalf("gate(%q) = %+v", raw, v)
		}
		if v.byHost() != (v.Reason == reasonVerdictInvalid) {
			t.Fatalf("gate(%q) lets an interceptor speak as the host: %+v", raw, v)
		}
		if again := gate(v.JSON()); !v.byHost() && !reflect.DeepEqual(plainVerdict(v), plainVerdict(again)) {
			t.Fatalf("gate(%q) = %+v, read again %+v", raw, v, again)
		}
	})
}

// plainVerdict returns the verdict as JSON, which omits empty members.
func plainVerdict(v Verdict) string { return string(v.JSON()) }

func TestPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"$target": "", "$policy_target": "", "$target.a": "", "$target[0]": "", `$target["a-b_C9"].x[12]`: "", "$target.0": "",
		"": reasonTargetForbidden, "target": reasonTargetForbidden, "$context.a": reasonTargetForbidden, "$.a": reasonTargetForbidden, " $target": reasonTargetForbidden,
		"$targetfoo": reasonTransformInvalid, "$target.": reasonTransformInvalid, "$target..a": reasonTransformInvalid, "$target[]": reasonTransformInvalid,
		"$target[-1]": reasonTransformInvalid, "$target[*]": reasonTransformInvalid, "$target[0:1]": reasonTransformInvalid, "$target['a']": reasonTransformInvalid,
		`$target["a.b"]`: reasonTransformInvalid, "$target.é": reasonTransformInvalid, "$target.a ": reasonTransformInvalid, "$target[99999999999999999999]": reasonTransformInvalid,
		"$target.a\n": reasonTransformInvalid,
	} {
		if _, got := parsePath(path); got != want {
			t.Errorf("parsePath(%q) = %q, want %q", path, got, want)
		}
	}
}

// A replacement changes only the one place and not the original, or does nothing.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"$target", "$target.a", "$target.a[0]", `$target.a[1]["b"]`, "$target.none", "$target.a.b", "$policy_target.c", "$target[0]"} {
		f.Add(path)
	}
	const before = `{"a":[1,{"b":2}],"c":null}`
	f.Fuzz(func(t *testing.T, path string) {
		v, err := parse([]byte(before), "")
		if err != nil {
			t.Fatal(err)
		}
		steps, reason := parsePath(path)
		if reason != "" {
			return
		}
		now, ok := replace(v, steps, "NEW")
		if got := string(rawjson.AppendSorted(nil, v)); got != before {
			t.Fatalf("replace at %q changed the original to %s", path, got)
		}
		if text := string(rawjson.AppendSorted(nil, now)); ok && strings.Count(text, "NEW") != 1 {
			t.Fatalf("replace at %q gives %s", path, text)
		}
	})
}
