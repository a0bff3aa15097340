package shell

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// spell writes a word in one of the many spellings that a shell reduces to it.
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

// A pattern finds a command in any spelling, with any wrapper, and with any order of its
// options.
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
				break // only a command may follow a wrapper
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

// The same text as data is not a command, with any quotes.
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

// If a computed word can result in Yes, the answer is not No: replacing the word by any literal
// gives an answer that the first one includes.
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

// wrapped puts a line into one of the many wrappers that run it.
func wrapped(t *rapid.T, line string) string {
	double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(line) + `"`
	single := `'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(line) + `'`
	q := Quote
	return rapid.SampledFrom([]func() string{
		func() string { return "ssh -p 22 host " + q(line) },
		func() string { return "docker exec -it web sh -c " + q(line) },
		func() string { return "docker run --rm -v a:/b --entrypoint bash img -c " + q(line) },
		func() string { return "kubectl -n x exec pod -c y -- bash -c " + q(line) },
		func() string { return "sudo -u root bash -c " + q(line) },
		func() string { return "su - x -c " + q(line) },
		func() string { return "nix-shell --run " + q(line) },
		func() string { return "git -c " + q("alias.x=!"+line) + " x" },
		func() string { return "git -c " + q("core.sshCommand="+line) + " fetch" },
		func() string { return "git rebase --exec " + q(line) + " main" },
		func() string { return "git submodule foreach " + q(line) },
		func() string { return "GIT_SSH_COMMAND=" + q(line) + " git fetch" },
		func() string { return "export EDITOR=" + q(line) },
		func() string { return "tar cf a b --checkpoint-action=" + q("exec="+line) },
		func() string { return "rsync -e " + q(line) + " a b" },
		func() string { return "ssh -o " + q("ProxyCommand="+line) + " host" },
		func() string { return "tmux new-session -d " + q(line) },
		func() string { return "screen -dm bash -c " + q(line) },
		func() string { return "watch -n 5 " + q(line) },
		func() string { return "flock /tmp/x -c " + q(line) },
		func() string { return "script -c " + q(line) + " /dev/null" },
		func() string { return "find . -exec sh -c " + q(line) + " \\;" },
		func() string { return "xargs -0 bash -c " + q(line) },
		func() string { return "trap " + q(line) + " EXIT" },
		func() string { return "f() {\n" + line + "; }; f" },
		func() string { return "echo $(" + line + ")" },
		func() string { return "python3 -c " + q("import os; os.system("+double+")") },
		func() string { return "python3 -c " + q("import subprocess as s\ns.run("+double+", shell=True)") },
		func() string { return "node -e " + q("require('child_process').execSync("+double+")") },
		func() string { return "perl -e " + q("system("+single+")") },
		func() string { return "ruby -e " + q("system("+single+")") },
		func() string { return "php -r " + q("system("+single+");") },
		func() string { return "awk " + q("BEGIN { system("+double+") }") },
		func() string { return "lua -e " + q("os.execute("+double+")") },
		func() string { return "osascript -e " + q("do shell script "+double) },
		func() string { return "X=" + q(line) + "; eval \"$X\"" },
		func() string { return "X=" + q(line) + "; bash -c \"$X\"" },
		func() string { return "printf %s " + q(line) + " | sh" },
		func() string {
			return "echo " + base64.StdEncoding.EncodeToString([]byte(line)) + " | base64 -d | bash"
		},
		func() string {
			return "eval \"$(base64 -d <<< " + base64.StdEncoding.EncodeToString([]byte(line)) + ")\""
		},
		func() string { return "echo " + hex.EncodeToString([]byte(line)) + " | xxd -r -p | sh" },
		func() string { return "bash <(echo " + q(line) + ")" },
		func() string { return "vim -c " + q(":!"+strings.ReplaceAll(line, "\n", " ")) + " f" },
		func() string { return "gdb -ex " + q("shell "+strings.ReplaceAll(line, "\n", " ")) },
		func() string { return "ansible all -m shell -a " + q(line) },
		func() string { return "timeout 5 env A=b nohup bash -c " + q(line) },
	}).Draw(t, "wrapper")()
}

// With any wrappers around a command, at any depth, its pattern finds it and the gate passes
// it.
func TestLawWrappersKeepMatching(t *testing.T) {
	t.Parallel()
	lines := map[string]*Pattern{}
	for line, pattern := range map[string]string{
		"rm -rf /": "rm -rf /", "git push -f origin main": "git push --force", "kubectl delete ns prod": "kubectl delete namespace", "curl -XDELETE http://h": "curl -X DELETE",
	} {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		lines[line] = p
	}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"rm -rf /", "git push -f origin main", "kubectl delete ns prod", "curl -XDELETE http://h"}).Draw(t, "line")
		p := lines[line]
		for range rapid.IntRange(1, 2).Draw(t, "depth") {
			line = wrapped(t, line)
		}
		s := Parse(line)
		if a, _ := p.Match(s); a != Yes {
			t.Fatalf("Match(%q, %q) = %v; commands %q, unknown %q", p, line, a, renderAll(s), s.Unknown)
		}
		if !NewGate(line).May(p.Program()) {
			t.Fatalf("NewGate(%q).May(%q) = false", line, p.Program())
		}
	})
}
