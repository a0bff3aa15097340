//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package shell

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Lines that are built to exhaust the parser end soon, use little memory, and are unknown. The
// stack of a goroutine is limited here, so unlimited recursion would end the test program.
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

	// These lines are long but harmless. They only have to be fast.
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

// Lines that expand again and again have a result with limited work. An agent that waits too
// long would continue without its guards. Without the limits of the parser, these lines would
// exceed the timeout of the tests.
func TestBoundedWork(t *testing.T) {
	t.Parallel()
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for name, line := range map[string]string{
		"doubled variable":  "a=" + many("x", 4000) + ";" + many("a=$a$a;", 2000) + "$a",
		"values":            many("x=rm;x=ls;$x -rf /;", 2000),
		"functions":         "f() { f \"$@\"; f \"$@\"; };" + many("f a;", 500),
		"mutual functions":  many("f() { g $1; g $1; }; g() { f $1; f $1; };", 20) + "f a",
		"nested functions":  many("f() { ", 200) + "x $1" + many("; }; f a", 200),
		"aliases":           many("alias a='b b'; alias b='a a'; a;", 500),
		"alias lines":       many("alias a='a a a a'; a;", 500),
		"substitutions":     many("$(echo ", 300) + "x" + many(")", 300),
		"pipes":             "echo x" + many("|base64 -d", 3000) + "|sh",
		"printf":            "printf '" + many("%s", 4000) + "' " + many("a ", 4000) + "| sh",
		"code":              "python3 -c 'import os;" + many("os.system(\"ls\");", 5000) + "'",
		"code of strings":   "python3 -c '" + many("open(", 3000) + "'",
		"code of brackets":  "node -e '" + many("exec([[[[", 5000) + "'",
		"eval in code":      "python3 -c '" + many("eval(\"", 500) + "'",
		"quotes in code":    "python3 -c \"" + many("'", 50000) + "\"",
		"backticks":         "perl -e '" + many("`ls`;", 5000) + "'",
		"powershell":        "pwsh -c '" + many("{(", 5000) + "'",
		"powershell dollar": "pwsh -c '" + many("\"$(", 5000) + "'",
		"cmd":               "cmd /c " + many("if a if b ", 3000),
		"cmd start":         "cmd /c " + many("start ", 5000),
		"parallel":          "parallel 'sh -c {}' ::: " + many("ls ", 20000),
		"xargs":             many("echo x | xargs sh -c y;", 3000),
		"sed":               "sed '" + many("s/a/b/e;", 10000) + "'",
		"tmux":              "tmux " + many("new x \\; ", 5000),
		"git":               "git " + many("-c alias.x=!ls ", 5000),
		"here-strings":      many("read x <<< a; $x;", 3000),
		"loops":             many("for i in a b c; do $i $i; ", 200) + many("done;", 200),
		"replace":           "x=" + many("a", 4000) + ";" + many("y=${x//a/aaaa};$y;", 500),
		"suffixes":          "x=" + many("a", 4000) + ";" + many("y=${x%%*b*b*b*b};$y;", 500),
		"process files":     many("cat <(", 300) + many(")", 300),
		"make":              "make " + many("'X=$(shell ls)' ", 3000),
		"crontab":           "crontab <<E\n" + many("* * * * * ls\n", 10000) + "E",
		"code of names":     "python3 -c '" + many("a();", 60000) + "'",
		"files":             "cat " + many("a/b ", 60000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Parse(line)
			n := 0
			for i := range s.Commands {
				n += len(s.Commands[i].Files())
			}
			s.URLs()
			if len(s.Commands) > maxCommands || len(s.Unknown) > maxReasons || n > maxFiles*len(s.Commands) {
				t.Errorf("Parse of %d bytes found %d commands, %d files, %d reasons", len(line), len(s.Commands), n, len(s.Unknown))
			}
		})
	}
}

// adversarial has lines that grow with n and are built to cost more than n.
var adversarial = map[string]func(n int) string{
	"alias doubling": aliasBomb,
	"alias doubling in lists": func(n int) string {
		return repeated(n, func(i int) string { return fmt.Sprintf("alias a%d='a%d;a%d';", i, i-1, i-1) }) + fmt.Sprintf("a%d", n)
	},
	"alias chain": func(n int) string {
		return repeated(n, func(i int) string { return fmt.Sprintf("alias a%d='a%d x';", i, i-1) }) + fmt.Sprintf("a%d", n)
	},
	"alias through eval": func(n int) string {
		return repeated(n, func(i int) string { return fmt.Sprintf("alias a%d='eval a%d; eval a%d';", i, i-1, i-1) }) + fmt.Sprintf("a%d", n)
	},
	"aliases of each other": func(n int) string { return strings.Repeat("alias a='b b' b='a a';a;", n) },
	"function doubling": func(n int) string {
		return "f0(){ ls $1;};" + repeated(n, func(i int) string { return fmt.Sprintf("f%d(){ f%d $1;f%d $1;};", i, i-1, i-1) }) + fmt.Sprintf("f%d a", n)
	},
	"functions and calls": func(n int) string {
		return repeated(n, func(i int) string { return fmt.Sprintf("f%d(){ a;};", i) }) + strings.Repeat("b;", n)
	},
	"body and calls": func(n int) string {
		return "f(){ " + strings.Repeat("echo $1;", n) + "};" + strings.Repeat("f a;", n)
	},
	"variable doubling": func(n int) string {
		return "v0=x;" + repeated(n, func(i int) string { return fmt.Sprintf("v%d=$v%d$v%d;", i, i-1, i-1) }) + fmt.Sprintf("$v%d", n)
	},
	"long value":        func(n int) string { return "x=" + strings.Repeat("a", 4000) + ";echo " + strings.Repeat("$x", n) },
	"long value, calls": func(n int) string { return "x=" + strings.Repeat("a", 4000) + ";" + strings.Repeat("$x;", n) },
	"replaced value": func(n int) string {
		return "x=" + strings.Repeat("a", 4000) + ";echo " + strings.Repeat("${x//a/bbbbbbbb}", n)
	},
	"trimmed value": func(n int) string {
		return "x=" + strings.Repeat("a", 4000) + ";echo " + strings.Repeat("${x%%*b*b*b}", n)
	},
	"defaults":           func(n int) string { return strings.Repeat("${ab:-c};", n) },
	"subscripts":         func(n int) string { return "a='" + strings.Repeat("x[", n) + "'" },
	"eval eval":          func(n int) string { return strings.Repeat("eval ", n) + "x" },
	"env env":            func(n int) string { return strings.Repeat("env ", n*16) },
	"sudo env":           func(n int) string { return strings.Repeat("sudo env A=b ", n*4) },
	"xargs xargs":        func(n int) string { return "echo a|" + strings.Repeat("xargs ", n) },
	"find -exec":         func(n int) string { return "find . " + strings.Repeat("-exec sh -c ls \\; ", n) },
	"sh -c":              func(n int) string { return strings.Repeat("sh -c 'sh -c ls';", n) },
	"xargs sh -c":        func(n int) string { return strings.Repeat("ls|xargs -I{} sh -c 'rm {}';", n) },
	"substitutions":      func(n int) string { return strings.Repeat("$(echo ", n/4) + "x" + strings.Repeat(")", n/4) },
	"subshells":          func(n int) string { return strings.Repeat("(", n/4) + "x" + strings.Repeat(")", n/4) },
	"pipeline":           func(n int) string { return "x" + strings.Repeat("|x", n) },
	"pipeline of shells": func(n int) string { return "echo x" + strings.Repeat("|sh", n) },
	"braces":             func(n int) string { return "echo " + strings.Repeat("{a,b}", n) },
	"words of braces":    func(n int) string { return "echo " + strings.Repeat("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ", n) },
	"arithmetic": func(n int) string {
		return "echo $((" + strings.Repeat("(", n/4) + "1" + strings.Repeat(")", n/4) + "))"
	},
	"cases": func(n int) string { return strings.Repeat("case a in a) ", n/8) + "x" + strings.Repeat(";; esac", n/8) },
	"loops": func(n int) string {
		return strings.Repeat("for i in a b c; do ", n/8) + "$i" + strings.Repeat(";done", n/8)
	},
	"document of a block": func(n int) string {
		return "{ " + strings.Repeat("a;", n) + "} <<E\n" + strings.Repeat("$x ", n) + "\nE\n"
	},
	"document of shells": func(n int) string {
		return "{ " + strings.Repeat("sh;", n) + "} <<E\n" + strings.Repeat("x;", n) + "\nE\n"
	},
	"comments": func(n int) string { return strings.Repeat("a # \\\n", n) },
	"code":     func(n int) string { return "python3 -c '" + strings.Repeat("os.system(\"sh -c ls\");", n) + "'" },
}

// The work of Parse grows linearly with the size of the line, and has a limit. Commands after
// the limit are hidden, so no guard treats the line as harmless. Lines without such a limit
// were an alias chain of 48 KB, 25 GB of copies of one here-document, and "xargs xargs ...".
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	const small, large = 250, 1000
	for name, line := range adversarial {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var work [2]int
			for i, n := range []int{small, large} {
				text := line(n) + "\nrm -rf ~"
				w := walker{s: &Script{}}
				w.outermost(text)
				work[i] = w.work
				deleted := slices.ContainsFunc(w.s.Commands, func(c Command) bool { return c.Name == "rm" && c.Args[len(c.Args)-1].Text == "~" })
				if !deleted && len(w.s.Hidden()) == 0 {
					t.Errorf("n=%d: the command behind the bomb is neither found nor hidden: %q", n, w.s.Unknown)
				}
				// One step of work may be as large as the text that it reads.
				if most := budget(len(text)) + 512*len(text) + 1<<20; w.work > most {
					t.Errorf("n=%d: %d bytes cost %d steps, want at most %d", n, len(text), w.work, most)
				}
				if i == 1 && w.work < w.budget && work[1] > work[0]*(large/small)*2 {
					t.Errorf("n=%d cost %d steps, n=%d cost %d: more than linear", small, work[0], large, work[1])
				}
			}
		})
	}
}
