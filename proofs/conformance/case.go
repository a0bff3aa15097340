package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Case is one promise: an action and its expected result.
type Case struct {
	frame
	File string
	// Play runs a case of another format and compares the result. An error means that there is
	// nothing to compare, and a Skip that the case cannot run here. nil = the kind decides.
	Play func(ctx context.Context) ([]Diff, error)

	body map[string]json.RawMessage // the members of the case's kind
	err  error                      // why it cannot run

	names func(b *bench) namesake // see plan
}

// frame has the members of every case.
type frame struct {
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Promises     []string         `json:"seed_id"`
	Dialect      string           `json:"dialect"`
	Kind         string           `json:"kind"`
	Event        string           `json:"event"`
	Native       string           `json:"native_event"`
	Note         string           `json:"note"`
	Law          string           `json:"law"`
	Hardening    bool             `json:"hardening"`
	Expect       any              `json:"expect"`
	Alternatives []map[string]any `json:"accept_alternatives"`
}

var frameKeys = []string{
	"id", "name", "seed_id", "dialect", "kind", "event", "native_event", "note", "law", "hardening", "expect", "accept_alternatives",
}

// Load reads the cases of files, and of all *.json files below directories. An invalid case is
// included and fails when it runs. An error means that a file could not be read at all.
func Load(paths ...string) ([]Case, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && (file == path || filepath.Ext(file) == ".json") {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read cases: %w", err)
		}
	}
	var cases []Case
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read cases: %w", err)
		}
		more, err := Parse(content)
		if err != nil {
			return nil, fmt.Errorf("cannot read cases: %s: %w", file, err)
		}
		for i := range more {
			more[i].File = file
		}
		cases = append(cases, more...)
	}
	seen := make(map[string]bool, len(cases))
	for i := range cases {
		c := &cases[i]
		if seen[c.ID] && c.err == nil {
			c.err = fmt.Errorf("two cases have the id %q", c.ID)
		}
		seen[c.ID] = true
	}
	return cases, nil
}

// Parse reads the cases of one file.
func Parse(content []byte) ([]Case, error) {
	var suite struct {
		Format any               `json:"format"`
		Suite  string            `json:"suite"`
		About  any               `json:"about"`
		Rules  any               `json:"rules"`
		Cases  []json.RawMessage `json:"cases"`
	}
	err := strict(content, &suite.Cases)
	if err != nil {
		if suiteErr := strict(content, &suite); suiteErr != nil {
			return nil, fmt.Errorf("neither a list of cases (%w) nor a suite (%w)", err, suiteErr)
		}
	}
	cases := make([]Case, len(suite.Cases))
	for i, raw := range suite.Cases {
		cases[i] = newCase(raw, suite.Suite)
	}
	return cases, nil
}

// newCase reads a case. If the case has no dialect, the suite is its dialect.
func newCase(raw json.RawMessage, suite string) Case {
	var c Case
	raw, err := expand(raw)
	if err == nil {
		err = strict(raw, &c.body)
	}
	if err == nil {
		own := make(map[string]json.RawMessage, len(frameKeys))
		for _, key := range frameKeys {
			if value, ok := c.body[key]; ok {
				own[key] = value
				delete(c.body, key)
			}
		}
		err = strict(rawjson.Must(own), &c.frame)
	}
	if c.Dialect == "" {
		c.Dialect = suite
	}
	if err == nil && c.ID == "" {
		err = errors.New("a case has no id")
	}
	c.err = err
	return c
}

// decode reads the members of the case's kind.
func (c *Case) decode(into any) error {
	if err := strict(rawjson.Must(c.body), into); err != nil {
		return fmt.Errorf("cannot read the case: %w", err)
	}
	return nil
}

// expected returns all accepted results of the case and of its operations.
func (c *Case) expected() []any {
	all := []any{c.Expect}
	for _, alternative := range c.Alternatives {
		all = append(all, alternative)
	}
	if ops, err := tree(c.body["ops"]); err == nil {
		all = append(all, ops)
	}
	return all
}

// serial reports whether the case must run alone, because it measures the memory or the terminal
// output of this process, or sets its environment.
func (c *Case) serial() bool {
	return contains(c.expected(), "max_rss_growth_mb") || contains(c.expected(), "terminal_output") ||
		strings.Contains(string(c.body["args"]), `"parent_env"`) || c.body["env"] != nil
}

// hasHook reports whether the case contains a hook of this kind.
func (c *Case) hasHook(kind string) bool {
	for _, raw := range c.body {
		if value, err := tree(raw); err == nil && hasKind(value, kind) {
			return true
		}
	}
	return false
}

func hasKind(value any, kind string) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return hasKind(v, kind) })
	case map[string]any:
		if value["kind"] == kind {
			return true
		}
		for _, member := range value {
			if hasKind(member, kind) {
				return true
			}
		}
	}
	return false
}

// contains reports whether a value contains, at any depth, a member with this name.
func contains(value any, name string) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return contains(v, name) })
	case map[string]any:
		for key, member := range value {
			if key == name || contains(member, name) {
				return true
			}
		}
	}
	return false
}
