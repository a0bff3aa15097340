package expr_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/expr"
)

// A message contains the mistake, its position, and a correct form.
func TestErrors(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`kind == "x" && tol.name == ""`:          `unknown name tol, at column 16`,
		"kind == \"é\" &&\n  tool.nam == \"\"":   `unknown name tool.nam, at line 2, column 3`,
		`tool.name ==`:                           `the expression is incomplete, at column 13`,
		`tool.name = "x"`:                        `unexpected "=", at column 11`,
		`tool.name == 1`:                         `== does not work with text and a whole number, at column 11`,
		`tool.name in "Bash"`:                    "`in` does not work with text; write b contains a, at column 11",
		`trimPrefix(kind, "a") == ""`:            `unknown function trimPrefix, use one of len, lower, `,
		`kind.lower() == ""`:                     `methods are not supported: write lower(value), at column 6`,
		`any(tool.paths, any(tool.paths, true))`: `a loop inside a loop is not allowed: it could run for very long, at column 17`,
		`kind matches "("`:                       "error parsing regexp: missing closing ): `(`, at column 14",
		`"a\q" == kind`:                          `valid escapes are \n, \t, \\, \", \u20ac and similar; between` + " ` quotes, \\ has no special meaning, at column 3",
		`true; false`:                            `; can only end a let, at column 5`,
		`kind ?? "a" == "b"`:                     `?? next to == needs brackets around one of them, at column 13`,
		`#`:                                      `# is an element, and is only allowed inside any, all, filter and similar functions, at column 1`,
		`kind`:                                   `the expression wants true or false, got text, at column 1`,
		// Mistakes that only the value shows.
		`tool.input.a.b == 1`:        `nil has no member b; use ?. instead of . to get nil, at column 13`,
		`tool.input.n % 2 == 1`:      `% wants whole numbers: int(a) % int(b), at column 14`,
		`tool.input.n && true`:       `want true or false, got a number, at column 14`,
		`tool.paths[3] == ""`:        `no element 3 in a list of 0, at column 11`,
		`int(tool.input.n) % 0 == 1`: `% by 0, at column 19`,
	} {
		p, err := expr.Compile(source, expr.Truth, names)
		if err == nil {
			_, err = ask(p, event("", "", 1, 1, "", false, nil, []string{}, map[string]any{"n": 1.0}))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// Some expressions must give a number.
func TestNumber(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]any{
		`len(tool.name) + 1`: 5.0, `tool.input.n`: 1.0, `ratio / 2`: 0.75, `tool.input.nothing ?? 3`: 3.0,
		`tool.name`: nil, `true`: nil, `nil`: nil, `tool.input.text`: nil, `tool.input.nothing`: nil,
	} {
		var got any
		p, err := expr.Compile(source, expr.Number, names)
		if err == nil {
			got, err = ask(p, events[1])
		}
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v, want %v", source, got, err, want)
		}
	}
}
