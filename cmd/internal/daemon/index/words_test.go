package index

import (
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// textsOf returns the texts that addTexts adds, by decoding the value.
func textsOf(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case []any:
		for _, e := range v {
			texts = append(texts, textsOf(e)...)
		}
	case map[string]any:
		for _, e := range v {
			texts = append(texts, textsOf(e)...)
		}
	}
	return texts
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		`{"a":"b","c":["d",1,-2.5e+3,{"e":"f\n\"g\\"}],"h" :"i","\u0041":"\u00e9","":""}`, `"alone"`, `7`, `null`, `[true,false]`, `{"a":"{\"b\":1}"}`, `"\ud800"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		addTexts(&b, []byte(text)) // must not crash on any input
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if !json.Valid([]byte(text)) || dec.Decode(&v) != nil || repeats(text) {
			return
		}
		lines := func(texts []string) []string {
			all := strings.Split(strings.Join(texts, "\n"), "\n")
			slices.Sort(all)
			return slices.DeleteFunc(all, func(s string) bool { return s == "" })
		}
		// The sign of a number is not a part of a word.
		want := lines(textsOf(v))
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], "-")
		}
		got := lines([]string{b.String()})
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "-")
		}
		slices.Sort(want)
		slices.Sort(got)
		if strings.ContainsRune(text, '\ufffd') || strings.ToValidUTF8(text, "") != text {
			return // decoders differ for such input
		}
		if !slices.Equal(slices.DeleteFunc(got, empty), slices.DeleteFunc(want, empty)) {
			t.Errorf("texts of %s = %q, want %q", text, got, want)
		}
	})
}

func empty(s string) bool { return s == "" }

// repeats reports whether an object may contain a name twice. A decoder keeps only one of them.
func repeats(text string) bool {
	names := 0
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if err != nil {
			return names > 1
		}
		if token == json.Delim('{') {
			names++
		}
	}
}

// No search text causes a syntax error of the index.
func FuzzMatch(f *testing.F) {
	db, err := memory(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(f.Context(), "INSERT INTO words(rowid, text) VALUES (1, 'rm rf tmp')"); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"rm", `rm -rf "/tmp"`, `"`, `""`, "*", "a*", `"a"*`, "NEAR(a b)", "a AND OR NOT b", "text:a", "{text}: a", "^a", "a + b", "(", "a\x00b", "é", "\xff", "½", `a"b"c`, "'; DROP",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		match, err := matchOf(text)
		if err != nil {
			return
		}
		var found sql.NullString
		if err := db.QueryRowContext(t.Context(), "SELECT json_group_array(rowid) FROM words WHERE words MATCH ?", match).Scan(&found); err != nil {
			t.Errorf("%q becomes %q: %v", text, match, err)
		}
	})
}
