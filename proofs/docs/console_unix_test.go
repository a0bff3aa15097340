//go:build system && unix

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// bin is the only directory on PATH while pages run: grapnel, grapnel-hook and the tools below.
// So other programs on the machine, especially agents, cannot change the output.
var bin string

var tools = []string{"bash", "cat", "chmod", "cmp", "cp", "date", "grep", "head", "ls", "mkdir", "mv", "node", "rm", "sed", "sleep", "sort", "tail", "wc"}

// optional are tools that a machine may lack. Pages that use a missing tool are skipped.
var optional = []string{"curl"}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "grapnel-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	for _, name := range []string{"grapnel", "grapnel-hook"} {
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, tool))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "find a tool of the pages: %v\n", err)
			return 1
		}
	}
	for _, tool := range optional {
		if path, err := exec.LookPath(tool); err == nil {
			if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
				fmt.Fprintf(os.Stderr, "find a tool of the pages: %v\n", err)
				return 1
			}
		}
	}
	bin = dir
	return m.Run()
}

// TestPages runs the pages. Each page runs in a separate directory, from top to bottom: a block
// becomes a file if the sentence before it names the file, and the lines of a console block that
// begin with "$ " are commands for one shell. Their output must be the output on the page; "..."
// stands for any text in a line, and on a separate line for any lines. A page of an example runs in
// a copy of its directory.
func TestPages(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, page := range pages(t) {
		if isTranslation(page) {
			continue // TestTranslations compares its blocks with the English page
		}
		steps, err := stepsOf(readPage(t, page))
		if err != nil {
			t.Errorf("%s:%v", page, err)
		}
		if len(steps) == 0 {
			continue
		}
		ran++
		t.Run(strings.TrimPrefix(strings.TrimSuffix(filepath.ToSlash(page), ".md"), "../"), func(t *testing.T) {
			t.Parallel()
			if err := (&process.Sandbox{}).Possible(); err != nil && page == "sandbox.md" {
				t.Skip(err) // the page mentions this; cmd/grapnel tests the hooks in this case
			}
			for _, tool := range optional {
				used := slices.ContainsFunc(steps, func(s step) bool { return strings.HasPrefix(s.command, tool+" ") })
				if _, err := os.Lstat(filepath.Join(bin, tool)); err != nil && used {
					t.Skipf("this machine has no %s", tool)
				}
			}
			runPage(t, page, steps)
		})
	}
	if ran < 6 {
		t.Errorf("only %d pages have commands", ran)
	}
}

// A step writes a file or runs a command.
type step struct {
	line    int
	file    string
	command string
	text    string // the content of the file, or the output of the command
}

func stepsOf(page string) ([]step, error) {
	var steps []step
	for _, b := range blocks(page) {
		switch {
		case b.lang != "console" && b.file != "":
			steps = append(steps, step{line: b.line, file: b.file, text: b.text})
		case b.lang == "console":
			first := len(steps)
			for i, line := range strings.SplitAfter(b.text, "\n") {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					steps = append(steps, step{line: b.line + i, command: strings.TrimSuffix(command, "\n")})
				} else if len(steps) == first && line != "" {
					return nil, fmt.Errorf("%d: a console block begins with a command", b.line)
				} else if line != "" {
					steps[len(steps)-1].text += line
				}
			}
		}
	}
	typed, within := false, false
	for i, s := range steps {
		typed = typed || s.command != ""
		if within = within || wrapper.MatchString(s.command); within && !strings.Contains(s.command, "grapnel-hook") {
			continue
		}
		if err := s.contained(); err != nil {
			return nil, fmt.Errorf("%d: %w", steps[i].line, err)
		}
	}
	if !typed {
		return nil, nil
	}
	return steps, nil
}

// rootless matches commands that need no --root: they read no policy of the user who runs the
// tests, and store nothing.
var rootless = regexp.MustCompile(`^grapnel (version|check \S|test\b)|^grapnel-hook --`)

// ours matches a command that runs one of the programs.
var ours = regexp.MustCompile(`(^|[|;&(] *)grapnel(-hook)? `)

// wrapper matches a shell function that adds --root to all later commands of a page.
var wrapper = regexp.MustCompile(`^grapnel\(\) \{ command grapnel "\$@" --root \S+; \}$`)

// contained returns an error for a command that would use the home directory from the user
// database. Tests must not use it, and no variable can change it.
func (s step) contained() error {
	if ours.MatchString(s.command+" ") && !strings.Contains(s.command, "--root ") && !rootless.MatchString(s.command) {
		return fmt.Errorf("%q has no --root", s.command)
	}
	return nil
}

// atTerminal matches commands that a page shows at a terminal, and that need one.
var atTerminal = regexp.MustCompile(`^grapnel (uninstall|untrust) `)

const mark = "\x01"

func runPage(t *testing.T, page string, steps []step) {
	t.Helper()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	work := filepath.Join(dir, "work")
	for _, d := range []string{home, work, filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if name, ok := strings.CutPrefix(filepath.ToSlash(page), "systems/"); ok { // its commands run in a copy of the example
		if err := os.CopyFS(work, os.DirFS(filepath.Join("..", "systems", strings.TrimSuffix(name, ".md"), "example"))); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		endDaemons(t, work)
		await.Until(t, "the drains that the page has started end", func() bool { return !programs.Draining(work) })
	})
	// All commands run in one shell, so that cd, variables and $? work as on a terminal. Files
	// are written at their position in the page, between the commands.
	var script strings.Builder
	terminal := ""
	for i, s := range steps {
		if s.file != "" {
			source := filepath.Join(dir, "file"+strconv.Itoa(i))
			mode := os.FileMode(0o600)
			if strings.HasPrefix(s.text, "#!") {
				mode = 0o700
			}
			if err := os.WriteFile(source, []byte(s.text), mode); err != nil {
				t.Fatal(err)
			}
			before := time.Now().Add(-time.Minute) // cp -p keeps it: a policy counts only some time after its last change
			if err := os.Chtimes(source, before, before); err != nil {
				t.Fatal(err)
			}
			name := strings.Replace(s.file, "~/", home+"/", 1)
			fmt.Fprintf(&script, "mkdir -p '%s' && cp -p '%s' '%s'\n", filepath.Dir(name), source, name)
			continue
		}
		person := ""
		if atTerminal.MatchString(s.command) {
			if terminal == "" {
				terminal = newTerminal(t)
			}
			person = " <" + terminal
		}
		fmt.Fprintf(&script, "%s%s\ncode=$?; printf '%s%%s %%s\\n' %d $code; (exit $code)\n", s.command, person, mark, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script.String())
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + bin, "HOME=" + home, "TMPDIR=" + filepath.Join(dir, "tmp"), "LANG=C.UTF-8", "LC_ALL=C"}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end: %v\n%s", page, err, out)
	}
	rest := string(out)
	for i, s := range steps {
		if s.command == "" {
			continue
		}
		got, after, ok := strings.Cut(rest, mark+strconv.Itoa(i)+" ")
		if !ok {
			t.Fatalf("%s:%d: the shell ended at %s:\n%s", page, s.line, s.command, rest)
		}
		code, after, _ := strings.Cut(after, "\n")
		rest = after
		if !fits(s.text, got) {
			t.Errorf("%s:%d: %s\nshown:\n%s\nprinted:\n%s", page, s.line, s.command, s.text, got)
		}
		if documented := i+1 < len(steps) && steps[i+1].command == "echo $?"; code != "0" && !documented {
			t.Errorf("%s:%d: %s: exit code %s, and the page does not say so:\n%s", page, s.line, s.command, code, got)
		}
	}
	if rest != "" {
		t.Errorf("%s: something printed after its last command: %s", page, rest)
	}
}

// endDaemons ends daemons that a page has left running because it did not run to its end.
func endDaemons(t *testing.T, dir string) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(dir, "*", "state", "daemon", "socket"))
	if err != nil {
		t.Error(err)
	}
	for _, socket := range sockets {
		root := filepath.Dir(filepath.Dir(filepath.Dir(socket)))
		if out, err := exec.Command(filepath.Join(bin, "grapnel"), "daemon", "stop", "--root", root).CombinedOutput(); err != nil {
			t.Errorf("end a daemon: %v\n%s", err, out)
		}
	}
}

var (
	gap  = regexp.MustCompile(` {2,}`)
	tail = regexp.MustCompile(`(?m)[ \t]+$`)
)

// fits reports whether the output of a program is the output on a page. The width of columns may
// differ.
func fits(shown, printed string) bool {
	even := func(text string) string { return gap.ReplaceAllString(tail.ReplaceAllString(text, ""), " ") }
	shown, printed = even(shown), even(printed)
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.SplitAfterSeq(shown, "\n") {
		if line == "...\n" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		for i, part := range strings.Split(line, "...") {
			if i > 0 {
				b.WriteString(`.*`)
			}
			b.WriteString(regexp.QuoteMeta(part))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String()).MatchString(printed)
}

func TestFits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shown, printed string
		want           bool
	}{
		"same":             {"a\nb\n", "a\nb\n", true},
		"other":            {"a\n", "b\n", false},
		"less":             {"a\nb\n", "a\n", false},
		"more":             {"a\n", "a\nb\n", false},
		"nothing":          {"", "", true},
		"nothing shown":    {"", "a\n", false},
		"a part":           {"took ... ms\n", "took 3.1 ms\n", true},
		"a part, one line": {"took ... ms\n", "took 3.1\n ms\n", false},
		"lines":            {"a\n...\nd\n", "a\nb\nc\nd\n", true},
		"no lines":         {"a\n...\nd\n", "a\nd\n", true},
		"no expression":    {"a.c\n", "abc\n", false},
		"columns":          {"a  b\n", "a     b  \n", true},
		"a space":          {"a b\n", "ab\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fits(test.shown, test.printed); got != test.want {
				t.Errorf("fits(%q, %q) = %v, want %v", test.shown, test.printed, got, test.want)
			}
		})
	}
}

// A page with a command that would use the policy of the current user is rejected.
func TestContained(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"grapnel explain --root demo --event x.json": true,
		"grapnel check grapnel.yaml":                 true,
		"grapnel test":                               true,
		"cat event.json":                             true,
		"grep -c grapnel-hook settings.json":         true,
		"grapnel explain --event x.json":             false,
		"grapnel check":                              false,
		"cat x | grapnel-hook claude-code":           false,
	} {
		if err := (step{command: command}).contained(); (err == nil) != want {
			t.Errorf("contained(%s) = %v, want an error: %v", command, err, !want)
		}
	}
}

// A page may define a shell function that adds --root. Before the definition, commands need
// --root.
func TestWrapped(t *testing.T) {
	t.Parallel()
	const wrap = "$ grapnel() { command grapnel \"$@\" --root .; }\n"
	for page, want := range map[string]bool{
		wrap + "$ grapnel log\n":                            true,
		"$ grapnel log\n" + wrap:                            false,
		"$ grapnel() { command grapnel; }\n$ grapnel log\n": false,
		wrap + "$ grapnel-hook claude-code\n":               false,
	} {
		if _, err := stepsOf("```console\n" + page + "```\n"); (err == nil) != want {
			t.Errorf("stepsOf(%q) = %v, want an error: %v", page, err, !want)
		}
	}
}

var (
	inline = regexp.MustCompile("`(grapnel(?:-hook)?(?: [^`]*)?)`")
	quoted = regexp.MustCompile(`'[^']*'`) // a quoted text, such as a shell line with other flags
)

// Every command on a page exists, with the flags on the page.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	help := map[string]string{}
	found := 0
	for _, page := range append(pages(t), "../SECURITY.md", "../ROUGH_EDGES.md", "../CHANGELOG.md") {
		text := readPage(t, page)
		var lines []string
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
		for _, b := range blocks(text) {
			if b.lang != "sh" && b.lang != "console" {
				continue
			}
			for line := range strings.Lines(b.text) {
				line = strings.TrimPrefix(line, "$ ")
				if strings.HasPrefix(line, "grapnel ") || strings.HasPrefix(line, "grapnel-hook ") {
					lines = append(lines, line)
				}
			}
		}
		for _, line := range lines {
			command, _, _ := strings.Cut(quoted.ReplaceAllString(line, "TEXT"), "#")
			command, _, _ = strings.Cut(command, "|")
			words := strings.Fields(command)
			about := words[:1]
			if len(words) > 1 && words[0] == "grapnel" && !strings.HasPrefix(words[1], "-") {
				about = words[:2]
			}
			name := strings.Join(about, " ")
			if _, ok := help[name]; !ok {
				help[name] = helpOf(t, about)
			}
			// If a command has subcommands, use the help of the subcommand.
			if len(words) > 2 && strings.Contains(help[name], "Available Commands:") && strings.Contains(help[name], "\n  "+words[2]+" ") {
				about = words[:3]
				name = strings.Join(about, " ")
				if _, ok := help[name]; !ok {
					help[name] = helpOf(t, about)
				}
			}
			found++
			// grapnel hook prints the same help as grapnel-hook.
			named := strings.Contains(help[name], name) || strings.Contains(help[name], strings.Join(about, "-"))
			if !strings.Contains(strings.ToLower(help[name]), "usage:") || !named {
				t.Errorf("%s: there is no command %q: %s", page, name, line)
			}
			for _, word := range words[1:] {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(flag, "-") && !strings.Contains(help[name], flag) {
					t.Errorf("%s: %s has no flag %s: %s", page, name, flag, line)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands are mentioned", found)
	}
}

// opaTest lists the switches of "opa test".
var opaTest = strings.Fields(`bench benchmem bundle capabilities count coverage exit-zero-on-skipped explain fail-on-empty format ignore max-errors parallel run
	schema target threshold timeout v0-compatible v1-compatible var-values verbose watch`)

// The page for users of Open Policy Agent lists each switch, and the replacements that it names
// exist.
func TestSwitchesOfOPA(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(readPage(t, "coming-from/opa.md"), "## Each switch of opa test\n")
	if !ok {
		t.Fatal("the table is not there")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	help := helpOf(t, []string{"grapnel", "test"})
	flag := regexp.MustCompile("`--?([a-z0-9-]+)(?: [A-Z]+)?`")
	theirs := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, name := range flag.FindAllStringSubmatch(cells[1], -1) {
			theirs[name[1]] = true
		}
		for _, name := range flag.FindAllStringSubmatch(cells[2], -1) {
			if !regexp.MustCompile(`(^|\W)--?` + name[1] + `(\W|$)`).MatchString(help) {
				t.Errorf("grapnel test has no flag %s: %s", name[0], line)
			}
		}
	}
	for _, name := range opaTest {
		if !theirs[name] {
			t.Errorf("nothing is said of --%s of opa test", name)
		}
	}
}

func helpOf(t *testing.T, words []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, words[0]), append(slices.Clone(words[1:]), "--help")...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s --help: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}
