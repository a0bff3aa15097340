package dialect

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzSplit: an object is split exactly like encoding/json splits it, and an invalid one up to
// the place of the error.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, ` { "a" : [ {"b":"]}"} , "\"" ] , "a":null , "":-0.1e+7}`, `{"a\u0062":true,"ab":false}`, `{"a":"\\"}`, `{"a":"\\\""}`,
		`{"a":{}}x`, `{"a":1,}`, `{"a" 1}`, `{"a":}`, `{"a":1`, `{"a":"`, `{"a`, `{`, ``, `[]`, `{"a":]}`, `{1:2}`, "\xef\xbb\xbf{\"\xff\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := split(raw)
		top, err := topLevel(raw)
		if err != nil {
			for key, value := range got { // the values are still parts of the payload
				if !bytes.Contains(raw, value) {
					t.Fatalf("split(%q) has %q: %q, which is not in it", raw, key, value)
				}
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(trim(raw), &want); err != nil {
			t.Fatalf("topLevel accepts %q, and encoding/json says %v", raw, err)
		}
		for name, members := range map[string]map[string]json.RawMessage{"split": got, "topLevel": top} {
			if len(members) != len(want) {
				t.Fatalf("%s(%q) has %d members, want %d", name, raw, len(members), len(want))
			}
			for key, value := range want {
				if !bytes.Equal(members[key], value) {
					t.Fatalf("%s(%q)[%q] = %q, want %q", name, raw, key, members[key], value)
				}
			}
		}
	})
}

// Deep nesting costs time in proportion to its length, and no stack.
func TestSplitDeep(t *testing.T) {
	t.Parallel()
	deep := bytes.Repeat([]byte(`{"a":[`), 1_000_000)
	if got := split(deep); len(got) != 0 {
		t.Errorf("split of an open object has %d members, want none", len(got))
	}
	closed := append(append([]byte(`{"a":`), bytes.Repeat([]byte("["), 1_000_000)...), append(bytes.Repeat([]byte("]"), 1_000_000), '}')...)
	if got := split(closed); len(got["a"]) != 2_000_000 {
		t.Errorf("split keeps %d bytes of a deep value, want all", len(got["a"]))
	}
}
