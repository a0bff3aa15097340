package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

func TestFold(t *testing.T) {
	t.Parallel()
	names := []rawjson.Key{{Name: "command", Depth: 1}, {Name: "filePath", Depth: 1}, {Name: "new_string", Depth: 3}, {Name: "straße", Depth: 1}}
	for input, want := range map[string]string{ // "" = error
		`{"command":"ls", "n":1e5}`:            `{"command":"ls", "n":1e5}`,
		`{ "COMMAND" : "ls" }`:                 `{ "command" : "ls" }`,
		`{"\u0043ommand":"ls"}`:                `{"command":"ls"}`,
		`{"filepath":1}`:                       `{"filePath":1}`,
		`{"filePath":1}`:                       `{"filePath":1}`,
		`{"file_path":1}`:                      `{"file_path":1}`,
		`{"STRAßE":1}`:                         `{"straße":1}`,
		`{"other":{"Command":1}}`:              `{"other":{"Command":1}}`,
		`{"e":[{"New_String":1},{"a":"\"b"}]}`: `{"e":[{"new_string":1},{"a":"\"b"}]}`,
		`{"New_String":1}`:                     `{"New_String":1}`,
		`{"text":"\"Command\": {","a":"\\"}`:   `{"text":"\"Command\": {","a":"\\"}`,
		`"text"`:                               `"text"`,
		`[]`:                                   `[]`,
		`{"a":1,"a":2}`:                        "",
		`{"a":1,"A":2}`:                        "",
		`{"x":[{"k":1,"\u212a":2}]}`:           "",
		`{"s":1,"\u017f":2}`:                   "",
		`{"a":{"b":1},"b":{"a":1},"c":[{"a":1},{"a":2}]}`: `{"a":{"b":1},"b":{"a":1},"c":[{"a":1},{"a":2}]}`,
	} {
		got, err := rawjson.Fold(json.RawMessage(input), names)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("Fold(%s) = %s, %v, want %s", input, got, err, want)
		}
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"K%d":1`, i)
	}
	text := "{" + strings.Join(many, ",")
	if _, err := rawjson.Fold(json.RawMessage(text+"}"), names); err != nil {
		t.Error(err)
	}
	if _, err := rawjson.Fold(json.RawMessage(text+`,"k7":1}`), names); err == nil {
		t.Error("one of many keys twice is no error")
	}
}

// A struct reads a key exactly if Fold gives it the name of the field.
func TestFoldIsEncodingJSON(t *testing.T) {
	t.Parallel()
	letter := rapid.SampledFrom([]string{"s", "S", "ſ", "k", "K", "\u212a", "ß", "ẞ", "é", "É", "_", "\xff", "\\u017f", "\\u004b", "σ", "ς", "İ", "i", "ı", "\x00"})
	rapid.Check(t, func(rt *rapid.T) {
		key := strings.Join(rapid.SliceOfN(letter, 0, 3).Draw(rt, "key"), "")
		raw := json.RawMessage(`{"` + key + `":1}`)
		if !json.Valid(raw) {
			rt.Skip("not JSON")
		}
		var read struct {
			A int `json:"sk"`
			B int `json:"ß"`
			C int `json:"éσ"`
			D int `json:"i"`
		}
		if err := json.Unmarshal(raw, &read); err != nil {
			rt.Fatal(err)
		}
		folded, err := rawjson.Fold(raw, []rawjson.Key{{Name: "sk", Depth: 1}, {Name: "ß", Depth: 1}, {Name: "éσ", Depth: 1}, {Name: "i", Depth: 1}})
		want := map[string]int{"sk": read.A, "ß": read.B, "éσ": read.C, "i": read.D}
		for name, seen := range want {
			if (string(folded) == `{"`+name+`":1}`) != (seen == 1) || err != nil {
				rt.Fatalf("Fold(%q) = %q, %v; encoding/json reads %+v", raw, folded, err, read)
			}
		}
	})
}

func BenchmarkFold(b *testing.B) {
	raw := json.RawMessage(`{"command":"go test ./...","description":"run the tests","timeout":60}`)
	names := []rawjson.Key{{Name: "command", Depth: 1}, {Name: "cmd", Depth: 1}, {Name: "path", Depth: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rawjson.Fold(raw, names); err != nil {
			b.Fatal(err)
		}
	}
}
