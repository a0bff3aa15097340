package grapnel

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func TestRawFind(t *testing.T) {
	t.Parallel()
	const doc = `{"a":{"b":[1,{"c":"x"},"y"]},"":0,"m/n":1,"o~p":2,"~1":3,"a":{"b" : [ 10 , {"c":"z"}, 1e400 ]},"e":[]}`
	tests := map[string]struct {
		pointer string
		want    []string
	}{
		"whole":             {"", []string{doc}},
		"last of equal":     {"/a/b/0", []string{"10"}},
		"in an array":       {"/a/b/1/c", []string{`"z"`}},
		"number as written": {"/a/b/2", []string{"1e400"}},
		"star":              {"/a/b/*", []string{"10", `{"c":"z"}`, "1e400"}},
		"star and key":      {"/a/b/*/c", []string{`"z"`}},
		"star in nothing":   {"/e/*", nil},
		"star is a key":     {"/*", nil},
		"empty key":         {"/", []string{"0"}},
		"slash":             {"/m~1n", []string{"1"}},
		"tilde":             {"/o~0p", []string{"2"}},
		"tilde then 1":      {"/~01", []string{"3"}},
		"behind the end":    {"/a/b/3", nil},
		"leading zero":      {"/a/b/01", nil},
		"sign":              {"/a/b/+1", nil},
		"no such key":       {"/z", nil},
		"into a scalar":     {"/e/0/x", nil},
		"scalar":            {"/m~1n/x", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, raw := range rawFind(json.RawMessage(doc), tt.pointer) {
				got = append(got, string(raw))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("rawFind(%s, %q) = %q, want %q", doc, tt.pointer, got, tt.want)
			}
		})
	}
}

func TestRawReplace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		doc, pointer, value string
		want                string // empty: an error
	}{
		"whole":             {`{"a":1}`, "", `2`, `2`},
		"key order stays":   {`{"z":1.0,"a":"x","m":9007199254740993}`, "/a", `"y"`, `{"z":1.0,"a":"y","m":9007199254740993}`},
		"inside":            {`{"a":[{"b":1}, 2]}`, "/a/0/b", `null`, `{"a":[{"b":null},2]}`},
		"escapes stay":      {`{"\u0061":"\u00e9","b":1}`, "/b", `2`, `{"\u0061":"\u00e9","b":2}`},
		"escaped key":       {`{"\u0061":1}`, "/a", `2`, `{"\u0061":2}`},
		"last of equal":     {`{"a":1,"b":0,"a":2}`, "/a", `3`, `{"a":3,"b":0}`},
		"under equal":       {`{"a":{"x":1},"a":{"x":2,"y":3}}`, "/a/x", `4`, `{"a":{"x":4,"y":3}}`},
		"only element":      {`{"a":["x"]}`, "/a/*", `"y"`, `{"a":["y"]}`},
		"two elements":      {`{"a":["x","y"]}`, "/a/*", `"z"`, ``},
		"no such key":       {`{"a":1}`, "/b", `2`, ``},
		"no such index":     {`[1]`, "/1", `2`, ``},
		"into a scalar":     {`{"a":1}`, "/a/b", `2`, ``},
		"bracket in string": {`{"a":"}{][\\\"","b":1}`, "/b", `2`, `{"a":"}{][\\\"","b":2}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := rawReplace(json.RawMessage(tt.doc), tt.pointer, json.RawMessage(tt.value))
			if (err != nil) != (tt.want == "") || string(got) != tt.want {
				t.Errorf("rawReplace(%s, %q, %s) = %s, %v, want %s", tt.doc, tt.pointer, tt.value, got, err, tt.want)
			}
		})
	}
}

func TestMergePatch(t *testing.T) {
	t.Parallel()
	tests := []struct{ target, patch, want string }{
		// RFC 7396, appendix A.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},

		// Untouched members keep their place and spelling.
		{`{"z":1.0,"y":1e2,"x":"\u00e9"}`, `{"y":null,"a":1.50}`, `{"z":1.0,"x":"\u00e9","a":1.50}`},
		// Of duplicate keys the last one wins, and a removed key does not come back.
		{`{"a":1,"b":2,"a":3}`, `{"a":null}`, `{"b":2}`},
		{`{"a":{"x":1},"a":{"y":2}}`, `{"a":{"z":3}}`, `{"a":{"y":2,"z":3}}`},
		{`{"a":{}}`, `{"a":{"x":1},"a":{"y":2}}`, `{"a":{"y":2}}`},
		{`{}`, `{"a":1,"a":null}`, `{}`},
		{`{"a":1}`, `{"\u0061":2}`, `{"a":2}`},
	}
	for _, tt := range tests {
		got, err := mergePatch(json.RawMessage(tt.target), json.RawMessage(tt.patch))
		if err != nil || string(got) != tt.want {
			t.Errorf("mergePatch(%s, %s) = %s, %v, want %s", tt.target, tt.patch, got, err, tt.want)
		}
	}
	if got, err := mergePatch(json.RawMessage(`{}`), json.RawMessage(`{"a":}`)); err == nil {
		t.Errorf("mergePatch with a broken patch = %s, want an error", got)
	}
}

func TestRawMapStrings(t *testing.T) {
	t.Parallel()
	upper := strings.ToUpper
	tests := map[string]struct{ doc, want string }{
		"values only":      {`{"key":"value"}`, `{"key":"VALUE"}`},
		"other bytes":      {"{ \"a\" :\t[ 1.0 , \"x\" ,\r\n true ] , \"a\":\"y\" }", "{ \"a\" :\t[ 1.0 , \"X\" ,\r\n true ] , \"a\":\"Y\" }"},
		"nothing to do":    {`{"a":["X", {"b":"Y"}]}`, `{"a":["X", {"b":"Y"}]}`},
		"escapes decoded":  {`["\u0061\n\"b\\"]`, `["A\n\"B\\"]`},
		"unchanged escape": {`["\u0041","a"]`, `["\u0041","A"]`},
		"html stays":       {`["<a&b>"]`, `["<A&B>"]`},
		"bare string":      {` "a" `, ` "A" `},
		"no string":        {`[1,null,{}]`, `[1,null,{}]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changed := rawMapStrings(json.RawMessage(tt.doc), upper)
			if string(got) != tt.want || changed != (tt.doc != tt.want) {
				t.Errorf("rawMapStrings(%s) = %s, %v, want %s", tt.doc, got, changed, tt.want)
			}
		})
	}
}

func TestRawStringsStops(t *testing.T) {
	t.Parallel()
	var got []string
	rawStrings(json.RawMessage(`{"k":["a",{"l":"b"}],"m":"c"}`), func(text string) bool {
		got = append(got, text)
		return text != "b"
	})
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("rawStrings = %q, want %q", got, want)
	}
}

// TestDeepNesting checks that deeply nested input neither overflows the stack nor takes long.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	const depth = 100_000
	for name, doc := range map[string]string{
		"arrays":  strings.Repeat(`[`, depth) + `"x"` + strings.Repeat(`]`, depth),
		"objects": strings.Repeat(`{"a":`, depth) + `"x"` + strings.Repeat(`}`, depth),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := json.RawMessage(doc)
			var texts []string
			rawStrings(raw, func(text string) bool { texts = append(texts, text); return true })
			if !slices.Equal(texts, []string{"x"}) {
				t.Errorf("rawStrings found %q, want x", texts)
			}
			got, changed := rawMapStrings(raw, strings.ToUpper)
			if want := strings.Replace(doc, `"x"`, `"X"`, 1); !changed || string(got) != want {
				t.Error("rawMapStrings did not change the innermost string, or changed more")
			}
			step := "/a"
			if doc[0] == '[' {
				step = "/0"
			}
			if found := rawFind(raw, step+step+step); len(found) != 1 || len(found[0]) >= len(doc) {
				t.Errorf("rawFind found %d values", len(found))
			}
			if _, err := rawReplace(raw, step+step, json.RawMessage("1")); err != nil {
				t.Error(err)
			}
			if got, err := mergePatch(raw, json.RawMessage(`{"a":{"a":null}}`)); err != nil || string(got) != `{"a":{}}` {
				t.Errorf("mergePatch = %.20s, %v", got, err)
			}
			if rawjson.Equal(raw, append(json.RawMessage(" "), raw...)) {
				t.Error("Equal calls equal what it cannot decode")
			}
		})
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		texts []string
		limit int
		want  []string
	}{
		{nil, 5, nil},
		{[]string{"abc", "de"}, 5, []string{"abc", "de"}},
		{[]string{"abc", "def"}, 5, []string{"abc", "de… [grapnel: 1 more bytes cut]"}},
		{[]string{"abcdef", "g", "h"}, 5, []string{"abcde… [grapnel: 1 more bytes cut] [grapnel: 2 more texts cut]"}},
		{[]string{"aéé"}, 4, []string{"aé… [grapnel: 2 more bytes cut]"}},
		{[]string{"\x80\x80\x80"}, 2, []string{"… [grapnel: 3 more bytes cut]"}},
	} {
		if got := capTexts(slices.Clone(tt.texts), tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("capTexts(%q, %d) = %q, want %q", tt.texts, tt.limit, got, tt.want)
		}
	}
}

// The following fuzz tests compare with encoding/json.

func FuzzRawFind(f *testing.F) {
	for _, doc := range []string{`{"a":[1,{"b":"c"}],"a":{"0":2}}`, `[[],{},"\"]"]`, `{"":{"":null}}`, "\"\\", `{"a`, `{"a":`, `[1`, `nul`} {
		for _, pointer := range []string{"", "/a", "/a/1/b", "/", "//", "/*/0", "/~01"} {
			f.Add([]byte(doc), pointer)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, pointer string) {
		found := rawFind(doc, pointer) // must not panic on any input
		if !json.Valid(doc) || pointer != "" && pointer[0] != '/' {
			return
		}
		want := find(decoded(t, doc), pointer)
		var got []any
		for _, raw := range found {
			got = append(got, decoded(t, raw))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rawFind(%s, %q) = %v, want %v", doc, pointer, got, want)
		}
		if len(found) != 1 || strings.Contains(pointer, "*") {
			return
		}
		replaced, err := rawReplace(doc, pointer, json.RawMessage(`"new"`))
		if err != nil || !json.Valid(replaced) {
			t.Fatalf("rawReplace(%s, %q) = %s, %v", doc, pointer, replaced, err)
		}
		if now := rawFind(replaced, pointer); len(now) != 1 || string(now[0]) != `"new"` {
			t.Errorf("after rawReplace(%s, %q) = %s there is %s", doc, pointer, replaced, now)
		}
	})
}

func find(v any, pointer string) []any {
	if pointer == "" {
		return []any{v}
	}
	key, rest, more := strings.Cut(pointer[1:], "/")
	if more {
		rest = "/" + rest
	}
	key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
	switch v := v.(type) {
	case map[string]any:
		if inner, ok := v[key]; ok {
			return find(inner, rest)
		}
	case []any:
		var found []any
		for i, inner := range v {
			if key == "*" || key == strconv.Itoa(i) {
				found = append(found, find(inner, rest)...)
			}
		}
		return found
	}
	return nil
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[1],"a":2}`), []byte(`{"a":{"b":null,"d":{}},"a":{"e":{"f":null}}}`))
	f.Add([]byte(`[1,2]`), []byte(`{"a":"b","c":null}`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		if !json.Valid(target) {
			return
		}
		got, err := mergePatch(target, patch)
		if err != nil {
			if json.Valid(patch) {
				t.Fatalf("mergePatch(%s, %s): %v", target, patch, err)
			}
			return
		}
		want := merged(decoded(t, target), decoded(t, patch))
		if !reflect.DeepEqual(decoded(t, got), want) {
			t.Errorf("mergePatch(%s, %s) = %s, want %v", target, patch, got, want)
		}
	})
}

func merged(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(object, key)
		} else {
			object[key] = merged(object[key], value)
		}
	}
	return object
}

func FuzzRawMapStrings(f *testing.F) {
	for _, doc := range []string{`{"a":["b","\u00e9\ud800"],"c":{"d":"\"e\\"}}`, `""`, "\"\\", `{"a":"b`, "\xff", `["<>"]`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if same, changed := rawMapStrings(doc, func(s string) string { return s }); changed || !bytes.Equal(same, doc) {
			t.Fatalf("rawMapStrings(%q) with nothing to do = %q, %v", doc, same, changed)
		}
		mapped, _ := rawMapStrings(doc, func(s string) string { return s + "!" })
		if !json.Valid(doc) {
			return
		}
		want := mapStrings(decoded(t, doc))
		if got := decoded(t, mapped); !reflect.DeepEqual(got, want) {
			t.Errorf("rawMapStrings(%s) = %s, want %v", doc, mapped, want)
		}
	})
}

func mapStrings(v any) any {
	switch v := v.(type) {
	case string:
		return v + "!"
	case []any:
		for i := range v {
			v[i] = mapStrings(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = mapStrings(v[key])
		}
	}
	return v
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return v
}
