package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// FuzzRaw compares every function with encoding/json. No input makes them panic, and for valid JSON
// they find and decode the same.
func FuzzRaw(f *testing.F) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	for _, seed := range []string{
		``, ` `, `1`, `"a"`, `nul`, `null`, `[]`, `[{}]`, `{}`, `{ }`, `{"a":1}`, deep(10_000), deep(10_001), strings.Repeat(`{"a":[`, 20_000),
		` {"a" : [ ] , "b":{"c":{},"d":[1,{"e":"}"}]}, "a":"\u00e4\"\\"} `, ` [1 , "a\\" ,{"b":[ ]}, [ ] ] `, `{"a":[1,2.5,-3e2,true,false,null,{"b":"c"}],"a":"again"}`,
		`{"a":1,}`, `{,}`, `{"a"}`, `{"a" "b"}`, `{"a":}`, `{"a":1`, `{"a":`, `{"a`, `{`, `[1`, `[,]`, `[1 2]`, `[1,`, `{]`, `[}`, `]`, `}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1}`, `{"a":1]`,
		`{"a":1}}`, `{"a":1} x`, `{1:2}`, `{"a":1 "b":2}`, `{"a":01}`, `{"a":-}`, `{"a":-0.5e+7}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e400}`, `{"a":+1}`, `{"a":tru}`,
		`{"a":truex}`, `{"a":falsetrue}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"\n\":1}", `{"\x":1}`, `[{"\x":1}]`, "{\"a\":\"\xff\"}", `{"a":"\`, `{"a":"b`, `"\"`, `"\\`, `"`,
		`{"a\u0062":1,"ab":2,"AB":3}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, "\"\xff\xfe\u2028\"", "\"a\x01b\"", `"\u0000\/\b\f"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		valid := json.Valid(raw)
		checkMembers(t, raw, valid)
		checkTexts(t, raw)
		names := rawjson.Keys(raw)
		if _, err := rawjson.Fold(raw, names[:min(len(names), 20)]); err != nil && valid && len(names) < 2 {
			t.Errorf("Fold(%q): %v", raw, err)
		}
		tokens := tokensOf(raw)
		decoded := rawjson.Decode(raw)
		sorted, err := rawjson.Sorted(raw)
		if (err == nil) != valid && len(raw) < 10_000 { // the decoder counts levels, and so does json.Valid
			t.Errorf("Sorted(%q): %v, valid is %v", raw, err, valid)
		}
		if !valid {
			return
		}
		checkEnd(t, bytes.TrimSpace(raw))
		if want := theirTokens(t, raw); !reflect.DeepEqual(tokens, want) {
			t.Errorf("Tokens(%q) = %q, want %q", raw, tokens, want)
		}
		var want any
		if json.Unmarshal(raw, &want) == nil && !reflect.DeepEqual(decoded, want) { // an error: a number is too large
			t.Errorf("Decode(%q) = %#v, want %#v", raw, decoded, want)
		}
		if !rawjson.Equal(raw, []byte(sorted)) || !reflect.DeepEqual(withNumbers(t, raw), withNumbers(t, []byte(sorted))) {
			t.Errorf("Sorted(%q) = %s is another value", raw, sorted)
		}
		if other := "[" + sorted + "]"; rawjson.Equal(raw, []byte(other)) {
			t.Errorf("Equal(%q, %s)", raw, other)
		}
	})
}

// checkMembers compares Members and ValidMembers with the map or slice of encoding/json.
func checkMembers(t *testing.T, raw []byte, valid bool) {
	t.Helper()
	var all, strict []rawjson.Member
	complete := rawjson.Members(raw, func(m rawjson.Member) { all = append(all, m) })
	ok := rawjson.ValidMembers(raw, func(m rawjson.Member) { strict = append(strict, m) })
	first := bytes.TrimLeft(raw, " \t\r\n")
	container := len(first) > 0 && (first[0] == '{' || first[0] == '[')
	if want := valid && container; ok != want || ok && !complete {
		t.Fatalf("ValidMembers(%q) = %v, want %v, Members says %v", raw, ok, want, complete)
	}
	if rawjson.IsObject(raw) != (container && first[0] == '{') {
		t.Errorf("IsObject(%q) = %v", raw, rawjson.IsObject(raw))
	}
	if !ok {
		return
	}
	if !reflect.DeepEqual(all, strict) {
		t.Errorf("Members(%q) = %v, ValidMembers has %v", raw, all, strict)
	}
	list, object := []json.RawMessage{}, map[string]json.RawMessage{}
	for _, m := range all {
		list, object[m.Name] = append(list, m.Value), m.Value
	}
	if first[0] == '[' {
		var want []json.RawMessage
		if err := json.Unmarshal(raw, &want); err != nil || !reflect.DeepEqual(list, want) {
			t.Errorf("Members(%q) = %q, want %q, %v", raw, list, want, err)
		}
		return
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &want); err != nil || !reflect.DeepEqual(object, want) {
		t.Errorf("Members(%q) = %q, want %q, %v", raw, object, want, err)
	}
}

// checkEnd checks that the end of a value does not depend on the bytes after it.
func checkEnd(t *testing.T, value []byte) {
	t.Helper()
	for _, more := range []string{"", ",1", "}", "] ", `:"`} {
		if end := rawjson.SkipValue(append(bytes.Clone(value), more...), 0); end != len(value) {
			t.Errorf("SkipValue(%q before %q) = %d, want %d", value, more, end, len(value))
		}
	}
}

// checkTexts decodes raw as a string, and encodes it as one.
func checkTexts(t *testing.T, raw []byte) {
	t.Helper()
	var want string
	err := json.Unmarshal(raw, &want)
	got, ok := rawjson.Unquote(raw)
	trimmed := bytes.HasPrefix(raw, []byte(`"`)) && bytes.HasSuffix(raw, []byte(`"`))
	if ok != (err == nil && trimmed) || ok && got != want {
		t.Errorf("Unquote(%q) = %q, %v, want %q, %v", raw, got, ok, want, err)
	}
	text := string(raw)
	for _, quoted := range [][]byte{rawjson.Quote(text), rawjson.AppendQuoted(nil, text)} {
		if back, ok := rawjson.Unquote(quoted); !ok || back != string([]rune(text)) {
			t.Errorf("%q is quoted as %s", text, quoted)
		}
	}
	for limit := range 5 {
		cut := rawjson.Cut(text, limit)
		if len(cut) > limit || !strings.HasPrefix(text, cut) || utf8.ValidString(text) && (!utf8.ValidString(cut) || len(cut) < min(len(text), limit)-3) {
			t.Errorf("Cut(%q, %d) = %q", text, limit, cut)
		}
	}
}

// tokensOf returns the tokens as text, except for brackets with a decoded value.
func tokensOf(raw []byte) []any {
	var all []any
	for token := range rawjson.Tokens(raw) {
		text := raw[token.Begin:token.End]
		switch token.Kind {
		case '{', '}', '[', ']':
			all = append(all, json.Delim(token.Kind))
		case ':', '"':
			decoded, _ := rawjson.Unquote(text)
			all = append(all, decoded)
		case 't', 'f':
			all = append(all, string(text) == "true")
		case 'n':
			all = append(all, nil)
		default:
			all = append(all, json.Number(text))
		}
	}
	return all
}

func theirTokens(t *testing.T, raw []byte) []any {
	t.Helper()
	var all []any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, token)
	}
}

func withNumbers(t *testing.T, raw []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The time of Decode depends on the length of the input and not on its depth: deeply nested input
// must not slow down a guard.
func TestDecodeIsLinear(t *testing.T) {
	t.Parallel()
	const depth = 9_000
	v := rawjson.Decode([]byte(strings.Repeat(`{"a":[`, depth) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`]}`, depth)))
	for range depth {
		v = v.(map[string]any)["a"].([]any)[0]
	}
	if text, _ := v.(string); len(text) != 1<<20 {
		t.Errorf("the innermost text has %d bytes", len(text))
	}
}

func BenchmarkMembers(b *testing.B) {
	raw := []byte(`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"go test ./...","timeout":60}}`)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		complete := rawjson.Members(raw, func(m rawjson.Member) { n += len(m.Value) })
		ok := rawjson.ValidMembers(raw, func(m rawjson.Member) { n -= len(m.Value) })
		if n != 0 || !ok || !complete {
			b.Fatal(n, ok, complete)
		}
	}
}
