package shell

import (
	"strings"
	"testing"
)

// Lines that are built to be read again and again give a bounded result: an agent that
// waits too long continues without its guards. Without the bounds of the parser, these
// lines would not be read before the timeout of the tests.
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
