//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package expr_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/expr"
)

// Expressions that would run very long fail after about a second. Normal expressions do not fail,
// even for the largest events.
func TestBounds(t *testing.T) {
	t.Parallel()
	large := event("", "", 1, 1, "", false, nil, nil, map[string]any{
		"text": strings.Repeat("x", 8<<20), "many": make([]any, 200_000), "words": strings.Split(strings.Repeat("word ", 3000), " "),
	})
	for source, want := range map[string]string{
		`tool.input.text contains "y" || tool.input.text matches "[yz]+$" || upper(tool.input.text) == "X"`: "",
		`any(tool.input.many, # == "x") || none(tool.input.many, # in ["a", "b"]) == false`:                 "",
		`any(tool.input.words, tool.input.text == #)`:                                                       "",
		`any(tool.input.many, tool.input.text contains "y")`:                                                "too many steps",
		`any(tool.input.many, tool.input.text matches "y")`:                                                 "too many steps",
		`any(tool.input.many, "y" in tool.input.many)`:                                                      "too many steps",
		`any(tool.input.many, tool.input.many == tool.input.words)`:                                         "",
		`len(map(tool.input.many, tool.input.text + "y")) == 0`:                                             "too many steps",
		`len(map(tool.input.many, string(tool.input.text))) == 0`:                                           "too many steps",
		`len(map(tool.input.many, lower(tool.input.text))) == 0`:                                            "too many steps",
		`len(map(tool.input.many, 1..100)) == 0`:                                                            "too many steps",
		`len(map(tool.input.many, [#, #, #, #, #, #])) == 0`:                                                "too many steps",
		`len(map(tool.input.many, keys(tool.input))) == 0`:                                                  "",
		`len(1..900000) == 0`:                           "",
		`len(1..1100000) == 0`:                          "too many",
		`len(-9223372036854775807..1) == 0`:             "too many",
		`tool.input.words[0] matches tool.input.text`:   "the pattern has 8388608 bytes",
		strings.Repeat("!", 1001) + "true":              "more than 1000 parts",
		strings.Repeat("(", 1001) + "true":              "more than 1000 parts",
		strings.Repeat("tool.failed or ", 200) + "true": "",
	} {
		p, err := expr.Compile(source, expr.Truth, names)
		if err == nil {
			_, err = ask(p, large)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", source, err, want)
		}
	}
}
