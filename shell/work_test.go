package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// repeated joins what part makes of 1 to n.
func repeated(n int, part func(i int) string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(part(i))
	}
	return b.String()
}

func aliasBomb(n int) string {
	return repeated(n, func(i int) string { return fmt.Sprintf("alias a%d='a%d a%d';", i, i-1, i-1) }) + fmt.Sprintf("a%d", n)
}

// adversarial are lines that grow with n and are built to cost more than n.
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

// The work of Parse grows with the size of the line and not faster, and it has a limit.
// What lies behind the limit is hidden, so that no guard takes the line for harmless. An
// alias chain of 48 KB, 25 GB of copies of one here-document, and "xargs xargs ..." were
// lines without such a limit.
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
				// One step of work may be as large as what it reads.
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

// A command behind the alias bomb is found, with the plain name and behind a wrapper.
func TestCommandBehindAliasBomb(t *testing.T) {
	t.Parallel()
	p, err := Compile("rm -rf ~")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{16, 250, 2000} {
		for _, last := range []string{"rm -rf ~", "sudo rm -rf ~"} {
			s := Parse(aliasBomb(n) + ";" + last)
			if answer, _ := p.Match(s); answer != Yes {
				t.Errorf("n=%d: Match of %q = %v, want yes", n, last, answer)
			}
			if n > maxExpanding && len(s.Hidden()) == 0 {
				t.Errorf("n=%d: nothing is hidden", n)
			}
		}
	}
}

// After 64 readings, or behind the 256th name, an alias or a value was not put in its
// place any more, and the line still counted as known.
func TestLimitsAreUnknown(t *testing.T) {
	t.Parallel()
	p, err := Compile("rm -rf ~")
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"many calls of an alias":  strings.Repeat("alias e=echo;e a;", 100) + "alias r='rm -rf';r ~",
		"many readings of values": strings.Repeat("a=b;echo $a;", 100) + "x='~';rm -rf $x",
		"many aliases":            repeated(300, func(i int) string { return fmt.Sprintf("alias e%d=echo;", i) }) + "alias r='rm -rf';r ~",
		"many variables":          repeated(300, func(i int) string { return fmt.Sprintf("e%d=echo;", i) }) + "x='~';rm -rf $x",
		"a deep chain":            "alias a0='rm -rf';" + repeated(40, func(i int) string { return fmt.Sprintf("alias a%d='a%d';", i, i-1) }) + "a40 ~",
	} {
		s := Parse(line)
		if answer, _ := p.Match(s); answer != Yes && len(s.Hidden()) == 0 {
			t.Errorf("%s: Match = %v and nothing is hidden, unknown: %q", name, answer, s.Unknown)
		}
	}
}

// An honest alias is expanded once: in its own line its name is the program.
func TestAliasInItsOwnLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"alias ls='ls --color'; ls -la":                {"alias", "ls", "ls", "ls", "ls"},
		"alias a='b x'; alias b='a y'; a":              {"alias", "b", "alias", "a", "b", "a", "a", "b", "a"},
		"alias g='git status'; alias s='sudo g'; s -s": {"alias", "git", "alias", "sudo", "g", "s", "sudo", "g"},
	} {
		s := Parse(line)
		var names []string
		for i := range s.Commands {
			names = append(names, s.Commands[i].Name)
		}
		if !slices.Equal(names, want) || len(s.Unknown) > 0 {
			t.Errorf("Parse(%q) found %q, want %q; unknown: %q", line, names, want, s.Unknown)
		}
	}
}
