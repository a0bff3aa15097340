package shell

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// spell writes a word in one of the many ways that a shell folds to it.
func spell(t *rapid.T, word string) string {
	var b strings.Builder
	for i := 0; i < len(word); {
		n := rapid.IntRange(1, len(word)-i).Draw(t, "n")
		piece := word[i : i+n]
		i += n
		switch rapid.IntRange(0, 5).Draw(t, "how") {
		case 0:
			b.WriteString("'" + piece + "'")
		case 1:
			b.WriteString(`"` + piece + `"`)
		case 2:
			b.WriteString(`$'` + piece + `'`)
		case 3:
			for _, c := range []byte(piece) {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
		case 4:
			b.WriteString(piece + `""`)
		default:
			b.WriteString(piece)
		}
	}
	return b.String()
}

// However a command is spelled, whatever wraps it and in whichever order its
// options stand, a pattern finds it.
func TestLawSpellingDoesNotMatter(t *testing.T) {
	t.Parallel()
	p, err := Compile("git push --force origin")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.Permutation([]string{
			rapid.SampledFrom([]string{"-f", "--force", "-uf", "--forc", "--force=true"}).Draw(t, "force"),
			rapid.SampledFrom([]string{"-u", "--no-verify", "-o x", "--push-option=x", "origin"}).Draw(t, "other"),
			"origin",
		}).Draw(t, "options")
		words := []string{rapid.SampledFrom([]string{"git", "/usr/bin/git", "GIT", "git.exe"}).Draw(t, "git")}
		words = append(words, strings.Fields(rapid.SampledFrom([]string{"", "-C x", "-c a=b", "--git-dir x --no-pager"}).Draw(t, "global"))...)
		words = append(append(words, "push"), strings.Fields(strings.Join(options, " "))...)
		for i, w := range words {
			words[i] = spell(t, w)
		}
		line := strings.Join(words, rapid.SampledFrom([]string{" ", "\t", " \\\n "}).Draw(t, "blank"))
		for range rapid.IntRange(0, 3).Draw(t, "wrappers") {
			switch rapid.IntRange(0, 9).Draw(t, "wrapper") {
			case 0:
				line = "sudo -u root -- " + line
			case 1:
				line = "env -i A=b " + line
			case 2:
				line = "sh -ec '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
			case 3:
				line = "eval '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
			case 4:
				line = "timeout -k 5 10 " + line
			case 5:
				line = "(" + line + ")"
			case 6:
				line = "a | " + line + " && b"
			case 7:
				line = "xargs -n 1 " + line
			case 8:
				line = "if a; then " + line + "\nfi"
			case 9:
				line = ": $(" + line + ")"
			}
			if !strings.HasPrefix(line, "sudo") && !strings.HasPrefix(line, "env") && !strings.HasPrefix(line, "sh") &&
				!strings.HasPrefix(line, "timeout") && !strings.HasPrefix(line, "xargs") && !strings.HasPrefix(line, "eval") {
				break // nothing but a command can stand behind a wrapper
			}
		}
		s := Parse(line)
		if a, _ := p.Match(s); a != Yes {
			t.Fatalf("Match(%q, %q) = %v, commands %q, unknown %q", p, line, a, renderAll(s), s.Unknown)
		}
		if !NewGate(line).May(p.Program()) {
			t.Fatalf("NewGate(%q).May(%q) = false", line, p.Program())
		}
	})
}

// As data the same text is no command, whatever quotes it.
func TestLawDataIsNoCommand(t *testing.T) {
	t.Parallel()
	p, err := Compile("rm -rf")
	if err != nil {
		t.Fatal(err)
	}
	frames := []string{
		"echo '%s'", "git commit -m '%s'", "# %s", "cat <<'E'\n%s\nE", ": '%s' # %s", "x='%s'", "case a in '%s') ;; esac",
		"grep '%s' f", "printf '%s' > f", "[[ a == '%s' ]]", "for i in '%s'; do :; done", "cat <<'E' | tee f\n%s\nE",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"rm -rf /", "; rm -rf /;", "$(rm -rf /)", "`rm -rf /`", "&& rm -rf x ||", "\" rm -rf x", "sudo rm -rf /"}).Draw(t, "text")
		line := strings.ReplaceAll(rapid.SampledFrom(frames).Draw(t, "frame"), "%s", text)
		s := Parse(line)
		if a, which := p.Match(s); a != No {
			t.Fatalf("Match(%q, %q) = %v at %v", p, line, a, which)
		}
	})
}

// A computed word never turns an answer into No that could be Yes: putting any
// literal in its place gives an answer that was foreseen.
func TestLawUnknownCoversWhatItMayBe(t *testing.T) {
	t.Parallel()
	var patterns []*Pattern
	for _, text := range []string{"git push --force", "git push", "rm -rf", "rm -rf /", "rm -rf /*", "kubectl delete namespace", "foo bar", "foo --bar=1", "curl -X DELETE", "sudo rm", "docker run --privileged", "sed -i"} {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	words := []string{
		"git", "push", "--force", "-f", "rm", "-rf", "-r", "/", "/etc", "x", "--", "-", "kubectl", "delete", "namespace", "-n", "foo", "bar",
		"--bar=1", "--bar", "1", "curl", "-X", "DELETE", "-XDELETE", "sudo", "-u", "docker", "run", "--privileged", "sed", "-i", "-e", "stash", "+main",
	}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOfN(rapid.SampledFrom(words), 1, 6).Draw(t, "line")
		at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
		some := rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "value")
		variable, prefix := "$v", ""
		if rapid.Bool().Draw(t, "quoted") {
			variable = `"$v"`
			some = some[:min(1, len(some))]
			if len(some) == 0 {
				some = []string{"''"}
			}
		}
		if rapid.Bool().Draw(t, "prefixed") {
			prefix = rapid.SampledFrom([]string{"-", "--", "/", "x", "-r", "--bar="}).Draw(t, "prefix")
			if len(some) == 0 {
				some = []string{""}
			}
		}
		with := func(value string) string {
			l := append([]string(nil), line...)
			l[at] = prefix + value
			return strings.Join(l, " ")
		}
		computed, literal := with(variable), with(strings.Join(some, " "))
		if strings.TrimSpace(literal) == "" {
			return
		}
		before, after := Parse(computed), Parse(literal)
		for _, p := range patterns {
			may, _ := p.Match(before)
			is, _ := p.Match(after)
			if is == Yes && may == No {
				t.Fatalf("Match(%q, %q) = no, but %q = yes", p, computed, literal)
			}
		}
	})
}
