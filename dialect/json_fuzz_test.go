package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzSplitValid: split accepts the same JSON as encoding/json, and finds the same members,
// byte for byte.
func FuzzSplitValid(f *testing.F) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	for _, seed := range []string{
		`{}`, `{ }`, `{"a":1}`, ` {"a" : [ ] , "b":{"c":{},"d":[1,{"e":"}"}]}, "a":"\u00e4\"\\"} `, deep(maxNesting), deep(maxNesting + 1),
		`{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1}`, `{"a":1]`, `{"a":1}}`, `{"a":1} x`, `{1:2}`, `{"a":1 "b":2}`,
		`{"a":01}`, `{"a":-}`, `{"a":-0.5e+7}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":tru}`, `{"a":truex}`, `{"a":null}`, `{"a":falsetrue}`,
		`{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{"a":"\`, `{"a":"b`, `{"a\u0062":1,"ab":2}`, `[]`, `[{}]`, `"a"`, `1`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = trim(raw)
		if len(raw) == 0 || raw[0] != '{' {
			return
		}
		got, ok := splitValid(raw)
		if want := json.Valid(raw); ok != want {
			t.Fatalf("splitValid(%q) says %v, encoding/json says %v", raw, ok, want)
		}
		if ok {
			if diff := cmp.Diff(split(raw), got); diff != "" {
				t.Errorf("members of %q (-split +splitValid)\n%s", raw, diff)
			}
		}
	})
}

// FuzzValueEnd: the end of a value does not depend on the bytes after it.
func FuzzValueEnd(f *testing.F) {
	for _, seed := range []string{`"a\\\"b"`, `"\\"`, `[1,"]",{"}":[]}]`, `{"a":"\\"}`, `12`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		value := bytes.TrimSpace(raw)
		if !json.Valid(raw) {
			return
		}
		for _, more := range []string{"", ",1", "}", "] ", `:"`} {
			if end := valueEnd(append(bytes.Clone(value), more...), 0); end != len(value) {
				t.Errorf("%q before %q ends at %d, want %d", value, more, end, len(value))
			}
		}
	})
}
