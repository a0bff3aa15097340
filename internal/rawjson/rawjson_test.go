package rawjson_test

import (
	"encoding/json"
	"math"
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
