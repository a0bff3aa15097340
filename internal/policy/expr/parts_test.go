package expr

import (
	"strings"
	"testing"
)

func TestParts(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a":                                  "a",
		"(a)":                                "a",
		"a and b or c && d":                  "or(and(a, b), and(c, d))",
		"a && (b || c)":                      "and(a, or(b, c))",
		"not (a or b) and not c":             "and(not(or(a, b)), not c)",
		"!(a and !b)":                        "not(and(a, !b))",
		"not a == b":                         "not a == b",
		"not (a) == b":                       "not (a) == b",
		"a or b ? c : d":                     "a or b ? c : d",
		"(a or b ? c : d) and e":             "and(a or b ? c : d, e)",
		"let x = a and b; x or c":            "let x = a and b; x or c",
		"if a or b { c } else { d and a }":   "if a or b { c } else { d and a }",
		"any(l, # == 1 or # == 2) and a":     "and(any(l, # == 1 or # == 2), a)",
		"a and b | c()":                      "a and b | c()",
		"'x or y' == s and s not in ['and']": "and('x or y' == s, s not in ['and'])",
		"(a) and (b)":                        "and(a, b)",
		"a /* or */ and b // or c":           "and(a, b)",
	} {
		p, err := Parts(source)
		if err != nil {
			t.Errorf("Parts(%q): %v", source, err)
			continue
		}
		if got := partText(p); got != want {
			t.Errorf("Parts(%q) = %s, want %s", source, got, want)
		}
		places(t, source, p)
	}
	for _, source := range []string{"", "'", "a @"} {
		if p, err := Parts(source); err == nil {
			t.Errorf("Parts(%q) = %v, want an error", source, p)
		}
	}
}

func places(t *testing.T, source string, p Part) {
	t.Helper()
	if !strings.HasPrefix(source[p.At:], p.Source) {
		t.Errorf("%q: %q does not stand at %d", source, p.Source, p.At)
	}
	for _, part := range p.Parts {
		places(t, source, part)
	}
}

func partText(p Part) string {
	if p.Op == "" {
		return p.Source
	}
	var parts []string
	for _, part := range p.Parts {
		parts = append(parts, partText(part))
	}
	return p.Op + "(" + strings.Join(parts, ", ") + ")"
}

func joined(t *testing.T, p Part, names []Name, value func(int) any) bool {
	t.Helper()
	if p.Op == "" {
		program, err := Compile(p.Source, Truth, names)
		if err != nil {
			t.Fatalf("%q: %v", p.Source, err)
		}
		v, err := program.Run(value)
		if err != nil {
			t.Fatal(err)
		}
		return v.(bool)
	}
	all := p.Op == "and"
	for _, part := range p.Parts {
		v := joined(t, part, names, value)
		switch p.Op {
		case "not":
			return !v
		case "and":
			all = all && v
		default:
			all = all || v
		}
	}
	return all
}
