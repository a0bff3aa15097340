package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// repeated joins the results of part for 1 to n.
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

// A command after an alias bomb is found, with its plain name and after a wrapper.
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

// Regression: after 64 readings, or after the 256th name, an alias or a value was no longer
// inserted, and the line was still treated as known.
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

// An ordinary alias is expanded once: inside its own definition, its name is the program.
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
