package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// FuzzParse checks that a file of cases is read or refused, and that a placeholder for a long
// text or an error does not end the program.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("vectors", "*", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("there are no vectors: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(content) < 20_000 {
			f.Add(content)
		}
	}
	f.Add([]byte(`[{"id":"a","kind":"env","args":{"x":{"$repeat":"ab","$times":3}}}]`))
	f.Add([]byte(`{"suite":"x","cases":[{"id":"a","kind":"parse","value":{"$error":"no"}}]}`))
	large := regexp.MustCompile(`[0-9]{6}|[eE][0-9+]`)
	f.Fuzz(func(t *testing.T, content []byte) {
		if large.Match(content) {
			return // sizes up to maxRepeat are allowed, but too slow for fuzzing
		}
		cases, err := Parse(content)
		if err != nil {
			return
		}
		for i := range cases {
			c := &cases[i]
			if c.err == nil && c.ID == "" {
				t.Errorf("a case of %q has no name", content)
			}
			var body map[string]json.RawMessage
			if err := c.decode(&body); c.err == nil && err != nil {
				t.Errorf("what is left of a case of %q cannot be read: %v", content, err)
			}
			for _, value := range body {
				_ = unobtainable(value)
			}
			c.compare(view{"decision": "block"})
		}
	})
}

// Found by FuzzParse: the product of a length and a number of times overflowed.
func TestRepeatTooMuch(t *testing.T) {
	t.Parallel()
	for _, times := range []string{"4611686018427387904", "9223372036854775807", "268435457", "-1"} {
		cases, err := Parse([]byte(`[{"id":"a","kind":"env","x":{"$repeat":"abcd","$times":` + times + `}}]`))
		if err != nil || len(cases) != 1 || cases[0].err == nil {
			t.Errorf("%s times: %+v, %v, want a case with an error", times, cases, err)
		}
	}
}
