//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package shell

import (
	"runtime/debug"
	"strings"
	"testing"
)

// Lines that are built to exhaust the reader end soon, in little memory, and are
// unknown. The stack of a goroutine is limited here, so a recursion that is not
// bounded ends the test program.
func TestParseIsBounded(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	rep := strings.Repeat
	lines := map[string]string{
		"too long":       "echo " + rep("x", maxLine),
		"subshells":      rep("( ", 120_000),
		"substitutions":  rep("$(", 120_000),
		"quoted":         rep(`"$(`, 80_000),
		"processes":      rep("<(", 120_000),
		"blocks":         rep("{ ", 120_000),
		"ifs":            rep("if ", 80_000),
		"cases":          rep("case x in x) ", 18_000),
		"parameters":     rep("${a:-", 50_000),
		"subscripts":     rep("a[", 120_000),
		"arithmetic":     "$((" + rep("(", 250_000),
		"minuses":        "echo $((" + rep("- ", 120_000) + "1))",
		"assignments":    "let " + rep("a=", 120_000) + "1",
		"ternaries":      "((" + rep("1?1:", 60_000) + "1))",
		"sums":           "((" + rep("1+", 120_000) + "1))",
		"tests":          "[[ " + rep("( ", 120_000),
		"negations":      "[[ " + rep("! ", 120_000) + "x ]]",
		"functions":      rep("f() ", 60_000) + "{ a; }",
		"times":          rep("time ", 50_000) + "a",
		"here-documents": rep("<<a ", 60_000) + "\n",
		"nested here":    "cat <<A\n" + rep("$(cat <<A\n", 20_000),
		"pipes":          rep("a|", 120_000) + "a",
		"lists":          rep("a;", 120_000),
		"ands":           rep("a&&", 80_000) + "a",
		"sudos":          rep("sudo ", 50_000) + "rm",
		"evals":          rep("eval ", 50_000) + "rm",
		"envs":           rep("env ", 60_000) + "rm",
		"finds":          rep("find -exec ", 20_000),
		"traps":          rep("trap 'a' EXIT;", 17_000),
		"aliases":        "alias " + rep("a='b c' ", 30_000),
		"comments":       rep("a #\\\n", 40_000),
	}
	for name, line := range lines {
		s := Parse(line)
		if len(s.Unknown) == 0 {
			t.Errorf("%s: nothing is unknown", name)
		}
		if len(s.Commands) > maxCommands || len(s.Unknown) > maxReasons {
			t.Errorf("%s: %d commands, %d reasons", name, len(s.Commands), len(s.Unknown))
		}
		for _, u := range s.Unknown {
			if len(u) > 2*maxReason {
				t.Errorf("%s: a reason has %d bytes", name, len(u))
			}
		}
	}

	// These are long and harmless; they only have to be quick.
	for name, line := range map[string]string{
		"braces":     "echo " + rep("{", 250_000),
		"choices":    "echo " + rep("{,}", 80_000),
		"words":      "rm " + rep("x ", 120_000),
		"returns":    rep("a\r", 120_000),
		"newlines":   rep("\n", 250_000),
		"backslash":  rep(`\`, 250_000),
		"document":   "cat <<'E'\n" + rep("rm -rf / #\n", 20_000) + "E",
		"big quoted": "echo '" + rep("rm -rf /\n", 20_000) + "'",
	} {
		if s := Parse(line); len(s.Commands) > 1 {
			t.Errorf("%s: %d commands", name, len(s.Commands))
		}
	}
}
