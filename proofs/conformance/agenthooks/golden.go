package agenthooks

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// goldenPart is the name of the part that holds the golden identities.
const goldenPart = "golden/identity"

// A fixture is a context with either its canonical JSON and identity, or the expected error.
type fixture struct {
	ID     string          `json:"id"`
	Note   string          `json:"note"`
	Ctx    json.RawMessage `json:"ctx"`
	Expect struct {
		Canonical string `json:"canonical_json"`
		Identity  string `json:"context_identity"`
		Error     string `json:"error"`
	} `json:"expect"`
}

// golden returns the identities in ../golden/identity.json, relative to dir, as cases that compare
// them with computed ones. Without that file it returns nil. If the file cannot be read or decoded,
// it returns a single case that fails.
func golden(dir string) []conformance.Case {
	file := filepath.Join(dir, "..", "golden", "identity.json")
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var golden struct {
		Fixtures []fixture `json:"fixtures"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &golden)
	}
	if err == nil && len(golden.Fixtures) == 0 {
		err = errors.New("no fixtures found")
	}
	newCase := func(id, name, law string, diffs []conformance.Diff) conformance.Case {
		c := conformance.Case{File: file, Play: func(context.Context) ([]conformance.Diff, error) { return diffs, err }}
		c.ID, c.Name, c.Law, c.Dialect, c.Kind = id, name, law, dialectName, goldenPart
		return c
	}
	if err != nil {
		return []conformance.Case{newCase(filepath.Base(file), "golden identities", "", nil)}
	}
	var cases []conformance.Case
	for i := range golden.Fixtures {
		f := &golden.Fixtures[i]
		law, diffs := f.compare()
		cases = append(cases, newCase(f.ID, f.Note, law, diffs))
	}
	return cases
}

func (f *fixture) compare() (law string, diffs []conformance.Diff) {
	var c comparison
	identity, err := agenthooks.JCS().Identify(f.Ctx)
	if f.Expect.Error != "" {
		if err == nil {
			c.differ("context_identity", identity, f.Expect.Error)
		}
		if f.Expect.Error != "host_error:context_invalid" {
			c.differ("error", "host_error:context_invalid", f.Expect.Error)
		}
		return "", c.diffs
	}
	if err != nil {
		c.differ("context_identity", err.Error(), f.Expect.Identity)
		return "", c.diffs
	}
	canonical, err := agenthooks.Canonical(f.Ctx)
	if err != nil {
		c.differ("canonical_json", err.Error(), f.Expect.Canonical)
		return "", c.diffs
	}
	if f.Expect.Canonical != string(canonical) && mended(f.Expect.Canonical) == string(canonical) {
		return "the file has 9.999999999999996e+22 for the double 44b52d02c7e14af5, which ECMAScript and RFC 8785 print as 9.999999999999997e+22", nil
	}
	if f.Expect.Canonical != string(canonical) {
		c.differ("canonical_json", string(canonical), f.Expect.Canonical)
	}
	if f.Expect.Identity != identity {
		c.differ("context_identity", identity, f.Expect.Identity)
	}
	return "", c.diffs
}

// mended corrects a number in canonical JSON. The generator of the specification's golden file
// parsed it wrongly.
func mended(canonical string) string {
	return strings.ReplaceAll(canonical, "9.999999999999996e+22", "9.999999999999997e+22")
}
