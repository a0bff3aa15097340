package shell

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// FuzzParse checks that any line is parsed without a panic and within the limits, and that a
// command that a Gate excludes is not found.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"", "rm -rf /", "sudo -u root -- env A=b nice -n 5 rm -rf /", "sh -c 'bash -c \"rm $x\"'", "find . -exec rm {} + -delete",
		"xargs -0 -I{} sh -c 'rm -rf {}'", "cat <<'EOF'\nrm\nEOF\n", "cat <<EOF\n$(rm)\nEOF", "a | b && (c; d) & e", "$'\\x41\\u263a'", "{a,b}{c,d}",
		"x=$(a `b \\`c\\``) \"${d:-$(e)}\" $((f + $(g)))", "env -S 'a b' c", "r\x00m\r\n\xff\x1a0\x1a", "if a; then b", "((a); b)", "ls *(e:'rm':)",
		"echo a # b \\\nrm", "curl x | sudo bash -s", "case a in b) c;; esac", "[[ a =~ b ]] && coproc c", "git push origin +main",
	} {
		f.Add(line)
	}
	for _, lines := range behindWrappers {
		for _, line := range lines {
			f.Add(line)
		}
	}
	var patterns []*Pattern
	for _, text := range []string{"rm -rf", "git push --force", "sudo rm", "* -x", "foo bar", "curl -X DELETE", "find -delete", "./a b"} {
		p, err := Compile(text)
		if err != nil {
			f.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	f.Fuzz(func(t *testing.T, line string) {
		used := processorTime()
		s := Parse(line)
		if processorTime()-used > maxProcessorTime {
			t.Fatalf("%q takes %v of processor time", line, processorTime()-used)
		}
		if len(s.Commands) > maxCommands || len(s.Unknown) > maxReasons {
			t.Fatalf("Parse(%q): %d commands, %d reasons", line, len(s.Commands), len(s.Unknown))
		}
		if !utf8.ValidString(line) && len(s.Unknown) == 0 {
			t.Fatalf("Parse(%q): invalid UTF-8 is not unknown", line)
		}
		for i := range s.Commands {
			c := &s.Commands[i]
			if c.parent >= i || c.computed && len(s.Unknown) == 0 {
				t.Fatalf("Parse(%q).Commands[%d] = %+v, unknown %q", line, i, c, s.Unknown)
			}
			if text := c.String(); strings.ContainsAny(text, "\n\r\x00\x1b") {
				t.Fatalf("Parse(%q).Commands[%d].String() = %q", line, i, text)
			}
		}
		if n := len(s.URLs()); n > maxCommands+len(line) {
			t.Fatalf("Parse(%q): %d addresses", line, n)
		}
		for i := range s.Commands {
			for _, file := range s.Commands[i].Files() {
				if file.Path == "" || file.Use == "" {
					t.Fatalf("Parse(%q).Commands[%d].Files() = %+v", line, i, file)
				}
			}
		}
		for _, c := range s.Code {
			if c.Command < 0 || c.Command >= len(s.Commands) {
				t.Fatalf("Parse(%q).Code = %+v", line, c)
			}
		}
		for _, p := range patterns {
			if a, c := p.Match(s); a != No && (c == nil || !NewGate(line).May(p.Program()) || !near(s, p)) {
				t.Fatalf("Match(%q, %q) = %v, %v; the Gate says %v", p, line, a, c, NewGate(line).May(p.Program()))
			}
		}
	})
}

// FuzzParseAfter checks that any line is parsed with any past, without a panic and in bounded time,
// and that a past only adds commands.
func FuzzParseAfter(f *testing.F) {
	f.Add("sh x", "x", "rm -rf $1 ~\n", "a", "b")
	f.Add("make -C d all X=y", "d/Makefile", "X := a\nall: b\n\t@rm $(X) $@\nb:;ls\n%.o: ; $(shell ls)\nall: all\n", "/", "d")
	f.Add("npm run a", "package.json", `{"scripts": {"a": "npm run b", "b": "npm run a; ls", "preb": 1}}`, "", "")
	f.Add("npm run a", "package.json", `"a": "ls \"x", "b`, "", "")
	f.Add("just x", "justfile", "v := 'y'\nx a=\"b\": y\n  ls {{v}} $a\n", "", "")
	f.Add("jupyter run n.ipynb", "n.ipynb", `{"cells": [{"cell_type": "code", "source": ["!ls\n"]}, {"cell_type": "code", "source": "x"}]}`, "", "")
	f.Add("./x; source x; python x", "x", "#!/usr/bin/env python3\nimport os\nos.system('sh x')\n", "x", "x")
	f.Add("rm -rf b*; mv b c; rm -r c/..", "", "\x1a0\x1a", "a", "b")
	f.Fuzz(func(t *testing.T, line, name, text, from, to string) {
		texts := func(file string) []Text {
			if file == name {
				return []Text{{Text: text}, {Text: text, Part: true}}
			}
			return nil
		}
		used := processorTime()
		after := ParseAfter(&Past{Texts: texts, Moved: []Move{{from, to}}}, "", line)
		if processorTime()-used > maxProcessorTime {
			t.Fatalf("%q after %q takes %v of processor time", line, text, processorTime()-used)
		}
		if len(after.Commands) > maxCommands {
			t.Fatalf("%d commands", len(after.Commands))
		}
		if alone := Parse(line); len(after.Commands) < len(alone.Commands) && len(after.Hidden()) == 0 {
			t.Fatalf("%q: %d commands alone, %d after %q", line, len(alone.Commands), len(after.Commands), text)
		}
		for _, w := range after.Wrote() {
			if w.Name == "" {
				t.Fatalf("%q wrote a file without a name", line)
			}
		}
	})
}

// maxProcessorTime is what one line may cost. It is far above the limits of work.go, because the
// race detector and the coverage of a fuzzer make code slow.
const maxProcessorTime = 20 * time.Second

// FuzzCompile checks that any pattern is accepted or refused, and that an accepted pattern can
// be matched.
func FuzzCompile(f *testing.F) {
	for _, p := range []string{"", "git push --force", "rm -rf /*", "sudo -u root rm", "a 'b", "[", "-x", "timeout 5 *", "kubectl delete ns/x", "foo -abc -d=e", "cargo +x", "a {b,c}"} {
		f.Add(p, "git push -f")
	}
	for _, pair := range [][2]string{{"git commit --no-verify", "git commit -anm x"}, {"npm --strict-ssl=false", "npm i --strict=false"}, {"curl --data x.y", "curl -sd x.y z"}, {"foo --bar", "foo --ba=1 -b"}, {"foo --x", "foo --x"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, pattern, line string) {
		p, err := Compile(pattern)
		if err != nil {
			if p != nil || !strings.HasPrefix(err.Error(), "command pattern ") {
				t.Fatalf("Compile(%q) = %v, %v", pattern, p, err)
			}
			return
		}
		s := Parse(line)
		if a, c := p.Match(s); a != No && (c == nil || !NewGate(line).May(p.Program()) || !near(s, p) || !s.MayMatch(pattern)) {
			t.Fatalf("Match(%q, %q) = %v, %v", pattern, line, a, c)
		}
	})
}

// FuzzParseAs checks that lines of other shells are parsed without a panic and within the
// limits.
func FuzzParseAs(f *testing.F) {
	for _, line := range []string{"Remove-Item -Recurse -Force x", "rm -r 'a', b; iex (irm x)", "if exist x (del /s /q x) else rd y", "@\"\na\n\"@ | foo", "$x = { ls $(rm y) }", "for %f in (*) do @del %f", "& 'a b' -c `x"} {
		f.Add(true, line)
		f.Add(false, line)
	}
	f.Fuzz(func(t *testing.T, power bool, line string) {
		language := Cmd
		if power {
			language = PowerShell
		}
		begin := time.Now()
		s := ParseAs(language, line)
		if time.Since(begin) > await.Limit {
			t.Fatalf("%q takes longer than %v", line, await.Limit)
		}
		if len(s.Commands) > maxCommands || len(s.Unknown) > maxReasons || s.Language != language {
			t.Fatalf("ParseAs(%q, %q): %d commands, %d reasons, language %q", language, line, len(s.Commands), len(s.Unknown), s.Language)
		}
		for i := range s.Commands {
			if c := &s.Commands[i]; c.parent >= i {
				t.Fatalf("ParseAs(%q, %q).Commands[%d] = %+v", language, line, i, c)
			}
		}
	})
}
