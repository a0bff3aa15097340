package conformance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// runOne runs one case that is written as JSON.
func runOne(t *testing.T, text string, opts *conformance.Options) conformance.Result {
	t.Helper()
	cases, err := conformance.Parse([]byte("[" + text + "]"))
	if err != nil {
		t.Fatal(err)
	}
	results := conformance.Run(t.Context(), cases, opts)
	if len(results) != 1 {
		t.Fatalf("%d results, want 1", len(results))
	}
	return results[0]
}

// value returns a case that returns one of its own values.
func value(is, expect string) string {
	return fmt.Sprintf(`{"id": "v", "dialect": "flyto", "kind": "parse", "function": "find_json", "key": "k",
		"results": [{"json_output": {"k": %s}, "callback": true}], "expect": %s}`, is, expect)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		is, expect string
		key        string // key of the one Diff; empty = it passes
	}{
		"not looked at":         {`1`, `{"found": true}`, ""},
		"number":                {`9007199254740993`, `{"value": 9007199254740993}`, ""},
		"number, other":         {`9007199254740993`, `{"value": 9007199254740992}`, "value"},
		"number, other text":    {`1.10`, `{"value": 1.1}`, "value"},
		"number is no text":     {`1`, `{"value": "1"}`, "value"},
		"members in any order":  {`{"a": 1, "b": {"c": []}}`, `{"value": {"b": {"c": []}, "a": 1}}`, ""},
		"member too many":       {`{"a": 1, "b": 2}`, `{"value": {"a": 1}}`, "value"},
		"member missing":        {`{"a": 1}`, `{"value": {"a": 1, "b": null}}`, "value"},
		"array in order":        {`[1, 2]`, `{"value": [2, 1]}`, "value"},
		"array too short":       {`[1]`, `{"value": [1, 2]}`, "value"},
		"text to the byte":      {`"é"`, `{"value": "e\u0301"}`, "value"},
		"null":                  {`null`, `{"value": null}`, ""},
		"null is not false":     {`false`, `{"value": null}`, "value"},
		"repeated":              {`"xyxyxy"`, `{"value": {"$repeat": "xy", "$times": 3}}`, ""},
		"repeated, inside":      {`{"$repeat": "ab", "$times": 2}`, `{"value": "abab"}`, ""},
		"repeated once less":    {`"xyxyxy"`, `{"value": {"$repeat": "xy", "$times": 2}}`, "value"},
		"time":                  {`"2026-03-04T05:06:07+00:00"`, `{"value": "<rfc3339>"}`, ""},
		"time of another zone":  {`"2026-03-04T05:06:07+01:00"`, `{"value": "<rfc3339>"}`, "value"},
		"no time":               {`"yesterday"`, `{"value": "<rfc3339>"}`, "value"},
		"contains":              {`"one two"`, `{"value_contains": ["two", "one"]}`, ""},
		"contains one of two":   {`"one two"`, `{"value_contains": ["two", "three"]}`, "value_contains"},
		"contains, no text":     {`null`, `{"value_contains": []}`, "value_contains"},
		"starts":                {`"one two"`, `{"value_starts": "one"}`, ""},
		"starts otherwise":      {`"one two"`, `{"value_starts": "two"}`, "value_starts"},
		"at least":              {`3`, `{"value_min": 3}`, ""},
		"less":                  {`3`, `{"value_min": 3.5}`, "value_min"},
		"at most":               {`3`, `{"value_max": 3}`, ""},
		"more":                  {`3`, `{"value_max": 2}`, "value_max"},
		"how many":              {`["a", "b"]`, `{"value_min": 2, "value_max": 2}`, ""},
		"too many":              {`["a", "b"]`, `{"value_max": 1}`, "value_max"},
		"bytes":                 {`"éé"`, `{"value_max_bytes": 4, "value_valid_utf8": true}`, ""},
		"too many bytes":        {`"éé"`, `{"value_max_bytes": 3}`, "value_max_bytes"},
		"a word nobody knows":   {`1`, `{"valeu": 1}`, "valeu"},
		"a rule about no word":  {`1`, `{"valeu_min": 1}`, "valeu_min"},
		"nothing expected":      {`1`, `null`, "expect"},
		"a list is no answer":   {`1`, `[]`, "expect"},
		"text with its escapes": {`"<&>\u2028"`, `{"value": "<&>\u2028"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, value(tt.is, tt.expect), nil)
			got := ""
			if len(r.Diffs) == 1 {
				got = r.Diffs[0].Key
			}
			if r.Error != "" || got != tt.key || (r.Status == conformance.Passed) != (tt.key == "") {
				t.Errorf("%s, want %s: status %s, want a Diff of %q\n%v", tt.is, tt.expect, r.Status, tt.key, &r)
			}
		})
	}
}

// hooked returns a case with one event and some hooks.
func hooked(dialect, event, hooks, expect string) string {
	return fmt.Sprintf(`{"id": "h", "dialect": %q, "kind": "dispatch", "event": %q, "input": {}, "plan": {"hooks": [%s]}, "expect": %s}`, dialect, event, hooks, expect)
}

// The terminal output and the use of memory are measured.
func TestMeasures(t *testing.T) {
	hooks := `{"name": "a", "kind": "command", "behaviour": {"command": "echo visible; echo visible >&2"}}`
	if r := runOne(t, hooked("flyto", "tool.before", hooks, `{"terminal_output": ""}`), nil); r.Status != conformance.Passed {
		t.Error(&r)
	}
	if r := runOne(t, hooked("flyto", "tool.before", hooks, `{"terminal_output": "x"}`), nil); r.Status != conformance.Failed || r.Diffs[0].Got != "" {
		t.Errorf("want a Diff of terminal_output: %v", &r)
	}
	grows := `{"name": "a", "kind": "func", "behaviour": {"op": "set", "value": {"x": {"$repeat": "x", "$times": 3000000}}}}`
	if r := runOne(t, hooked("ironclaw", "tool.before", grows, `{"max_rss_growth_mb": 1}`), nil); r.Status != conformance.Failed || len(r.Diffs) == 0 {
		t.Errorf("3 MB are not noticed: %v", &r)
	}
}

func TestLaw(t *testing.T) {
	t.Parallel()
	text := strings.Replace(value(`1`, `{"value": 2}`), `"id": "v"`, `"id": "v", "law": "block-stays", "accept_alternatives": [{"value": 3}, {"value": 1}]`, 1)
	r := runOne(t, text, nil)
	if r.Status != conformance.Passed || r.Law != "block-stays" || r.String() != "deliberate difference: v: block-stays\n" {
		t.Errorf("got %+v", r)
	}
	r = runOne(t, strings.Replace(text, `{"value": 1}`, `{"value": 4}`, 1), nil)
	if r.Status != conformance.Failed || r.Law != "" || len(r.Diffs) != 1 || fmt.Sprint(r.Diffs[0].Want) != "2" {
		t.Errorf("neither the answer nor an alternative came: got %+v", r)
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	fails := hooked("flyto", "tool.before", `{"name": "a", "kind": "func"}, {"name": "b", "kind": "webhook"}`, `{}`)
	for name, tt := range map[string]struct {
		gap  conformance.Gap
		text string
		want conformance.Status
	}{
		"covers":        {conformance.Gap{Dialect: "flyto", Kind: "dispatch"}, fails, conformance.Skipped},
		"a hook":        {conformance.Gap{Dialect: "flyto", Kind: "dispatch", Hook: "webhook"}, fails, conformance.Skipped},
		"another hook":  {conformance.Gap{Dialect: "flyto", Kind: "dispatch", Hook: "command"}, fails, conformance.Failed},
		"other dialect": {conformance.Gap{Dialect: "miniclaw", Kind: "dispatch"}, fails, conformance.Failed},
		"other kind":    {conformance.Gap{Dialect: "flyto", Kind: "registry"}, fails, conformance.Failed},
		"stale":         {conformance.Gap{Dialect: "flyto", Kind: "parse"}, value(`1`, `{"value": 1}`), conformance.Failed},
		"not stale":     {conformance.Gap{Dialect: "flyto", Kind: "parse"}, value(`1`, `{"value": 2}`), conformance.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.gap.Reason = "some reason"
			r := runOne(t, tt.text, &conformance.Options{Gaps: []conformance.Gap{tt.gap}})
			if r.Status != tt.want || r.Status == conformance.Skipped && r.Gap != "some reason" {
				t.Errorf("got %+v, want %s", r, tt.want)
			}
			if name == "stale" && !strings.Contains(r.Error, "stale") {
				t.Errorf("got %q, want that the gap is stale", r.Error)
			}
		})
	}
}

// A hook that does not return for an hour ends its case, and no other.
func TestHang(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the abandoned case does not delete its files
	hangs := hooked("miniclaw", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "sleep", "ms": 3600000}}`, `{}`)
	cases, err := conformance.Parse([]byte("[" + hangs + "," + value(`1`, `{"value": 1}`) + "]"))
	if err != nil {
		t.Fatal(err)
	}
	var results []conformance.Result
	synctest.Test(t, func(t *testing.T) {
		results = conformance.Run(t.Context(), cases, &conformance.Options{Deadline: 200 * time.Millisecond, Workers: 1})
		time.Sleep(2 * time.Hour) // until the abandoned hook has ended
	})
	if results[0].Status != conformance.Failed || !strings.Contains(results[0].Error, "no answer within 200ms") {
		t.Errorf("the one that hangs: %+v", results[0])
	}
	if results[1].Status != conformance.Passed {
		t.Errorf("the other one: %+v", results[1])
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a/one.json", "["+value(`1`, `{"value": 1}`)+"]")
	write("a/b/suite.json", `{"format": 1, "suite": "flyto", "about": "", "rules": {}, "cases": [{"id": "s", "kind": "parse", "function": "success", "results": [], "expect": {"success": []}}]}`)
	write("a/notes.md", "no cases")
	cases, err := conformance.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range conformance.Run(t.Context(), cases, nil) {
		if r.Status != conformance.Passed || r.Dialect != "flyto" || filepath.Dir(r.File) == "" {
			t.Errorf("got %+v", r)
		}
	}
	if results := conformance.Run(t.Context(), cases, &conformance.Options{Only: regexp.MustCompile("^s$")}); len(results) != 1 || results[0].ID != "s" {
		t.Errorf("Only: got %+v", results)
	}
	write("a/two.json", "["+value(`2`, `{"value": 2}`)+"]")
	if cases, err = conformance.Load(dir); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, r := range conformance.Run(t.Context(), cases, nil) {
		if r.Status == conformance.Failed {
			failed++
			if !strings.Contains(r.Error, `two cases have the id "v"`) {
				t.Errorf("got %+v", r)
			}
		}
	}
	if len(cases) != 3 || failed != 1 {
		t.Errorf("%d cases, %d of them failed, want 3 and the second v", len(cases), failed)
	}
	for _, bad := range []string{`{"cases": 1}`, `[] []`, `{"casse": []}`, ``, `[`} {
		write("bad.json", bad)
		if _, err := conformance.Load(filepath.Join(dir, "bad.json")); err == nil || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("Load(%s) = %v", bad, err)
		}
	}
	if _, err := conformance.Load(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there")
	}
	for _, bad := range []string{`{}`, `[{"dialect": "x", "kind": "y"}]`, `[{"dialect": "x", "kind": "y", "raeson": "z"}]`} {
		write("gaps", bad)
		if _, err := conformance.LoadGaps(filepath.Join(dir, "gaps")); err == nil {
			t.Errorf("LoadGaps(%s): no error", bad)
		}
	}
}

// A Result is a line of JSON with the same information as its text.
func TestResultJSON(t *testing.T) {
	t.Parallel()
	r := runOne(t, value(`1`, `{"value": 2}`), nil)
	r.MS = 0
	line, err := json.Marshal(r)
	want := `{"id":"v","dialect":"flyto","kind":"parse","status":"failed","diffs":[{"key":"value","want":2,"got":1}],"ms":0}`
	if err != nil || string(line) != want {
		t.Errorf("got %s, %v\nwant %s", line, err, want)
	}
}
