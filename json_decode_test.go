package grapnel

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzRawDecode checks that rawDecode returns the same values as encoding/json.
func FuzzRawDecode(f *testing.F) {
	for _, seed := range []string{
		`"plain"`, `"\u00e9\n\t\"\\\/\b\f\r"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, "\"\xff\xfe\"", "\"a\x01b\"",
		`"\u12"`, `"\x"`, `"a\"`, `""`, `{"a":[1,2.5,-3e2,true,false,null,{"b":"c"}],"a":"again"}`, `[]`, `{}`, `" "`, `"\u0000"`, `"é"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.TrimSpace(data)
		if len(data) > 1 && data[0] == '"' {
			var want string
			err := json.Unmarshal(data, &want)
			got, ok := rawString(data)
			if ok != (err == nil) || ok && got != want {
				t.Errorf("rawString(%q) = %q, %v, want %q, %v", data, got, ok, want, err)
			}
		}
		var want any
		if strings.Contains(string(data), "e") && json.Valid(data) && json.Unmarshal(data, &want) != nil {
			return // the number does not fit into a float64
		}
		if json.Unmarshal(data, &want) == nil {
			if got := rawDecode(data); !reflect.DeepEqual(got, want) {
				t.Errorf("rawDecode(%q) = %#v, want %#v", data, got, want)
			}
		}
	})
}

// TestRawDecodeIsLinear checks that the time depends on the length of the input and not on its
// depth: deeply nested input must not slow down a guard.
func TestRawDecodeIsLinear(t *testing.T) {
	t.Parallel()
	const depth = 9_000
	deep := []byte(strings.Repeat(`{"a":[`, depth) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`]}`, depth))
	v := rawDecode(deep)
	for range depth {
		v = v.(map[string]any)["a"].([]any)[0]
	}
	if text, _ := v.(string); len(text) != 1<<20 {
		t.Errorf("the innermost text has %d bytes", len(text))
	}
}
