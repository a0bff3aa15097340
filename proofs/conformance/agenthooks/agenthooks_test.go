package agenthooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

const ownVectors = "testdata/vectors"

// Our own vectors pass with both postures.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, posture := range []agenthooks.Posture{agenthooks.Continue, agenthooks.Terminate} {
		cases, err := Load(ownVectors, &Options{Posture: posture})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range conformance.Run(t.Context(), cases, nil) {
			if r.Status != conformance.Passed {
				t.Errorf("%s: %s%s", posture, r.Status, r.String())
			}
		}
	}
}

// The golden identities come from another implementation in another language.
func TestGolden(t *testing.T) {
	t.Parallel()
	results := conformance.Run(t.Context(), golden(ownVectors), nil)
	if len(results) < 18 {
		t.Fatalf("%d results", len(results))
	}
	for _, r := range results {
		if r.Status != conformance.Passed || r.Law != "" {
			t.Error(r.String())
		}
	}
}

func reload(t *testing.T, file string) vector {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v := vector{file: file}
	if err := strict(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// An invalid vector fails with a reason.
func TestBrokenVectors(t *testing.T) {
	t.Parallel()
	const good = `{"id":"AH-CTK-001","title":"t","spec_clause":"1","interceptor_script":[],"scenario":{"input":{"content":"x","role":"user"},"model_script":[` +
		`{"respond":{"content":"y","tool_calls":[],"finish_reason":"stop"}}]},"expect":{"interceptions":[],"sequence_strict":false,"run_outcome":"completed"}}`
	for _, c := range []struct{ old, now, want string }{
		{`"title":"t"`, `"title":"t","nonsense":1`, `unknown field "nonsense"`},
		{`"id":"AH-CTK-001"`, `"id":"X"`, "want AH-CTK-"},
		{`"title":"t"`, `"title":""`, "title or spec_clause"},
		{`"title":"t"`, `"title":"t","mode":"dry"`, `unknown mode "dry"`},
		{`"title":"t"`, `"title":"t","composition":{"profile":"vote"}`, `unknown profile "vote"`},
		{`"title":"t"`, `"title":"t","composition":{}`, "no profile"},
		{`"title":"t"`, `"title":"t","composition":{"profile":"sequential/run_all","more":1}`, `unknown field "more"`},
		{`"title":"t"`, `"title":"t","identity_provider":"mine"`, "unknown identity_provider"},
		{`"interceptor_script":[]`, `"interceptor_script":[],"interceptor_scripts":[]`, "either interceptor_script"},
		{`"interceptor_script":[],`, ``, "either interceptor_script"},
		{`"interceptor_script":[]`, `"interceptor_script":[{"at":"lunch","return":{}}]`, `unknown point "lunch"`},
		{`"interceptor_script":[]`, `"interceptor_script":[{"at":"input"}]`, "either return or fault"},
		{`"interceptor_script":[]`, `"interceptor_script":[{"at":"input","return":{},"fault":"raise"}]`, "either return or fault"},
		{`"interceptor_script":[]`, `"interceptor_script":[{"at":"input","fault":"sleep"}]`, `unknown fault "sleep"`},
		{`"interceptor_script":[]`, `"interceptor_script":[{"at":"input","fault":"raise","x":1}]`, `unknown field "x"`},
		{`"title":"t"`, `"title":"t","approval_script":[{"resolve":{}}]`, "either an outcome or the fault"},
		{`"title":"t"`, `"title":"t","approval_script":[{"resolve":{"outcome":"approve"},"x":1}]`, `unknown field "x"`},
		{`"run_outcome":"completed"`, `"run_outcome":"fine"`, `unknown run_outcome "fine"`},
		{`"run_outcome":"completed"`, `"run_outcome":"completed","records":[{"interception_point":"input","x":1}]`, `unknown field "x"`},
		{`"run_outcome":"completed"`, `"run_outcome":"completed","interceptions_absent":["lunch"]`, `unknown point "lunch"`},
		{`"run_outcome":"completed"`, `"run_outcome":"completed","run_outcome_by_posture":{"posture":"mood","outcomes":{}}`, `unknown posture "mood"`},
		{`"run_outcome":"completed"`, `"run_outcome":"completed","run_outcome_by_posture":{"posture":"tool_seam_host_error","outcomes":{"continue":"blocked"}}`, "do not agree"},
		{`"scenario":`, `"scenario":{},"scenery":`, `unknown field "scenery"`},
		{`"model_script":[`, `"model_script":[],"more":[`, `unknown field "more"`},
		{`"expect":{"interceptions":[],`, `"expect":{`, "interceptions or run_outcome"},
		{`"model_script":[{"respond":{"content":"y","tool_calls":[],"finish_reason":"stop"}}]`, `"model_script":[]`, "the script has 0 answers"},
		{`"tool_calls":[]`, `"tool_calls":[{"id":"c","name":"none","args":{}}]`, `no tool "none"`},
		{`"input":{`, `"tools":[{"name":"t","behavior":[{"when_args":{"a":1},"return":0}]}],"input":{`, ""},
		{`"tool_calls":[]`, `"tool_calls":[{"id":"c","name":"t","args":{}}]},"extra":{}},{"respond":{"content":"","tool_calls":[]`, `no tool "t"`},
	} {
		dir := t.TempDir()
		raw := strings.Replace(good, c.old, c.now, 1)
		if raw == good {
			t.Fatalf("there is no %s", c.old)
		}
		if err := os.WriteFile(filepath.Join(dir, "AH-CTK-001.json"), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		cases, err := Load(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := conformance.Run(t.Context(), cases, nil)[0]
		if c.want == "" {
			if r.Status != conformance.Passed {
				t.Errorf("%s: %s", c.now, r.String())
			}
			continue
		}
		if r.Status != conformance.Failed || !strings.Contains(r.Error, c.want) {
			t.Errorf("%s: %+v, want an error with %q", c.now, r, c.want)
		}
	}
}

// A vector that needs an undeclared capability is skipped with the reason.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	cases, err := Load(ownVectors, &Options{Capabilities: []string{"model_calls", "tool_calls"}})
	if err != nil {
		t.Fatal(err)
	}
	results := conformance.Run(t.Context(), cases, &conformance.Options{Only: regexp.MustCompile("917|903")})
	if len(results) != 2 || results[0].Status != conformance.Passed || results[1].Status != conformance.Skipped || results[1].Gap != "not declared: incremental_output" {
		t.Errorf("%+v", results)
	}
}

func TestPathsAndValues(t *testing.T) {
	t.Parallel()
	v, err := tree([]byte(`{"a":{"b":[{"c":null},1,1.50]},"d":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a.b[0].c": "null", "a.b[1]": "1", "a.b[2]": "1.5", "d": `"x"`, "a.b[0]": `{"c":null}`} {
		got, has := find(v, path)
		if !has || !equalRaw(json.RawMessage(want), got) {
			t.Errorf("%s is %v, %v, want %s", path, got, has, want)
		}
	}
	for _, path := range []string{"a.b[3]", "a.x", "d.x", "a[0]", "a.b.c", "a.b[-1]", "a..b"} {
		if got, has := find(v, path); has {
			t.Errorf("%s is %v", path, got)
		}
	}
	for _, c := range [][2]string{{"1", "1.0"}, {"9007199254740993", "9007199254740992"}, {`"1"`, "1"}, {"[1,2]", "[2,1]"}, {`{"a":1}`, `{"a":1,"b":2}`}, {"null", "false"}, {"{}", "[]"}} {
		got, err := tree([]byte(c[1]))
		if err != nil || equalRaw(json.RawMessage(c[0]), got) {
			t.Errorf("%s equals %s, %v", c[0], c[1], err)
		}
	}
	const text = "<\u2028\u2029>" // vectors compare parts of a context as text
	if got, want := compact(map[string]any{text: `\u2028`}), `{"`+text+`":"\\u2028"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The one golden identity with a known error in its file passes as a deliberate difference, and
// only with that exact error.
func TestMisprint(t *testing.T) {
	t.Parallel()
	const ctx = `{"agent":{"framework":"f","id":"a"},"interception_point":"output","output":{"content":[9.999999999999997e+22]},"sequence":1,` +
		`"session":{"id":"s"},"spec":"agent-hooks/0.1","target":{"content":0},"timestamp":"2026-01-02T03:04:05Z"}`
	for number, passes := range map[string]bool{"9.999999999999996e+22": true, "9.999999999999995e+22": false} {
		canonical, err := json.Marshal(strings.Replace(ctx, "9.999999999999997e+22", number, 1))
		if err != nil {
			t.Fatal(err)
		}
		raw := `{"fixtures":[{"id":"G-15","ctx":` + ctx + `,"expect":{"canonical_json":` + string(canonical) + `,"context_identity":"sha256:0"}}]}`
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "golden"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "golden", "identity.json"), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		results := conformance.Run(t.Context(), golden(filepath.Join(dir, "vectors")), nil)
		if len(results) != 1 {
			t.Fatal(results)
		}
		if r := results[0]; (r.Status == conformance.Passed) != passes || (r.Law != "") != passes {
			t.Errorf("%s: %+v", number, r)
		}
	}
}
