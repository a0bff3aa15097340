package rawjson_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func TestMarshal(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		`"a && b > c < d"`:     "a && b > c < d",
		`{"a":1.0,"b":"x\ny"}`: map[string]any{"b": "x\ny", "a": json.RawMessage("1.0")},
		`null`:                 nil,
	} {
		got, err := rawjson.Marshal(v)
		if err != nil || string(got) != want {
			t.Errorf("Marshal(%#v) = %s, %v, want %s", v, got, err, want)
		}
	}
	if got, err := rawjson.Marshal(math.NaN()); err == nil {
		t.Errorf("Marshal(NaN) = %s, want an error", got)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	if got := string(rawjson.Quote("<a href=\"b\">&\n")); got != `"<a href=\"b\">&\n"` {
		t.Errorf("Quote = %s", got)
	}
}

func TestUnquote(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"plain"`:        "plain",
		`"a\n\"\u00e9"`:  "a\n\"é",
		`"\ud83d\ude00"`: "😀",
		`"\ud83dx"`:      "\uFFFDx",
		"\"\xff\"":       "\uFFFD",
		`null`:           "",
		`"`:              "",
		`"not closed`:    "",
		`"a\x"`:          "",
		"\"a\x01\"":      "",
	} {
		got, ok := rawjson.Unquote([]byte(raw))
		if got != want || ok != (want != "") {
			t.Errorf("Unquote(%q) = %q, %v, want %q", raw, got, ok, want)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, `{ "b": [2], "a": 1 }`, true},
		{`"\u00e9"`, `"é"`, true},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`1`, `1.0`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":null}`, `{}`, false},
		{`""`, `null`, false},
	}
	for _, tt := range tests {
		if got := rawjson.Equal([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("Equal(%s, %s) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestFoldManyKeys folds the keys of an object with its own keys, as for a tool whose input a model
// writes. The work must grow with the input only: with a comparison of all pairs, this test takes minutes.
func TestFoldManyKeys(t *testing.T) {
	t.Parallel()
	const many = 100_000
	var b, upper strings.Builder
	for i := range many {
		fmt.Fprintf(&b, `%c"key%d":%d`, "{,"[min(i, 1)], i, i)
		fmt.Fprintf(&upper, `%c"KEY%d":%d`, "{,"[min(i, 1)], i, i)
	}
	object := json.RawMessage(b.String() + "}")
	keys := rawjson.Keys(object)
	for _, text := range []string{b.String() + "}", upper.String() + "}"} {
		if got, err := rawjson.Fold(json.RawMessage(text), keys); err != nil || string(got) != string(object) {
			t.Errorf("%.40s becomes %.40s, %v", text, got, err)
		}
	}
	// With one name for all, two spellings of it are an error as before.
	if _, err := rawjson.Fold(json.RawMessage(`{"key1":1,"KEY1":2}`), keys); err == nil {
		t.Error("two letter cases of a key are no error")
	}
	if got, err := rawjson.Fold(json.RawMessage(`{"a":{"KEY1":2}}`), keys); err != nil || string(got) != `{"a":{"KEY1":2}}` {
		t.Errorf("another depth: %s, %v", got, err)
	}
}
