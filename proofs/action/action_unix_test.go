//go:build system && unix

package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// shared is the directory of the program from the build step, which runs once for all tests.
var shared string

func TestMain(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "grapnel-action-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// build runs the build step of the action, and returns the PATH after it.
var build = sync.OnceValues(func() (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		return "", err
	}
	tree, err := yaml.Parse(data)
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	for _, step := range tree.Get("runs").Get("steps").Items {
		if text(step.Get("name")) == "Build" {
			paths := filepath.Join(shared, "path")
			cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Get("run").Text)
			cmd.Env = append(os.Environ(), "RUNNER_TEMP="+shared, "GITHUB_PATH="+paths, "VERSION=", "SOURCE="+source)
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%w: %s", err, out)
			}
			added, err := os.ReadFile(paths)
			return strings.TrimSpace(string(added)) + string(filepath.ListSeparator) + os.Getenv("PATH"), err
		}
	}
	return "", errors.New("no step is called Build")
})

// A project is a repository in which a test runs the steps of the action.
type project struct {
	dir, temp string
	inputs    map[string]string
	out       bytes.Buffer
}

func newProject(t *testing.T, files, inputs map[string]string) *project {
	t.Helper()
	for _, tool := range []string{"bash", "git", "go", "xargs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s, which the action needs", tool)
		}
	}
	p := &project{dir: t.TempDir(), temp: t.TempDir(), inputs: map[string]string{}}
	for _, input := range read(t, "action.yml").Get("inputs").Pairs {
		p.inputs[input.Key.Text] = text(input.Value.Get("default"))
	}
	for name, value := range inputs {
		if _, ok := p.inputs[name]; !ok {
			t.Fatalf("the action has no input %q", name)
		}
		p.inputs[name] = value
	}
	for name, content := range files {
		file := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = p.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	return p
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)

// run runs the steps like the GitHub runner, and returns the name of the failing step, or "".
func (p *project) run(t *testing.T) (failed string) {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) string {
		input, ok := strings.CutPrefix(name, "inputs.")
		if _, known := p.inputs[input]; !ok || !known {
			t.Fatalf("the action asks for %s", name)
		}
		return p.inputs[input]
	}
	for _, step := range read(t, "action.yml").Get("runs").Get("steps").Items {
		if cond := text(step.Get("if")); cond != "" {
			name, want, ok := strings.Cut(cond, " == ")
			if !ok {
				t.Fatalf("the condition %q is not read here", cond)
			}
			if value(name) != strings.Trim(want, "'") {
				continue
			}
		}
		script := step.Get("run")
		if script == nil || text(step.Get("name")) == "Build" {
			continue // another action, which installs Go or the program
		}
		if text(step.Get("shell")) != "bash" {
			t.Fatalf("step %s has the shell %q", text(step.Get("name")), text(step.Get("shell")))
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script.Text)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), "PATH="+path, "RUNNER_TEMP="+p.temp)
		if env := step.Get("env"); env != nil {
			for _, pair := range env.Pairs {
				cmd.Env = append(cmd.Env, pair.Key.Text+"="+expression.ReplaceAllStringFunc(pair.Value.Text, func(e string) string {
					return value(expression.FindStringSubmatch(e)[1])
				}))
			}
		}
		cmd.Stdout, cmd.Stderr = &p.out, &p.out
		if err := cmd.Run(); err != nil {
			return text(step.Get("name"))
		}
	}
	return ""
}

const (
	good = "version: 1\nhooks:\n  - name: no-force-push\n    on: tool.before\n    match: {command: git push --force}\n    block: Push a new branch.\n"
	bad  = "version: 1\nhooks:\n  - name: x\n    on: tool.befor\n    block: no\n"
	ugly = "version:   1\nhooks: []\n"

	holds    = "version: 1\ntests:\n  - command: git push --force\n    want: block\n"
	holdsNot = "version: 1\ntests:\n  - command: git push --force\n    want: allow\n"
)

func TestAction(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files, inputs map[string]string
		failed        string // the step
		out           string
	}{
		"good":              {map[string]string{"grapnel.yaml": good, "a b/grapnel.yaml": good}, nil, "", ""},
		"bad":               {map[string]string{"sub/grapnel.yaml": bad}, nil, "Check", "::error file=sub/grapnel.yaml,line=4,col=9"},
		"not laid out":      {map[string]string{"grapnel.yaml": ugly}, nil, "Format", "+version: 1"},
		"may be so":         {map[string]string{"grapnel.yaml": ugly}, map[string]string{"fmt": "false"}, "", ""},
		"none":              {map[string]string{"x.yaml": good}, nil, "Find", "no policy is found"},
		"tests that hold":   {map[string]string{"grapnel.yaml": good, "grapnel_test.yaml": holds}, map[string]string{"junit": "out.xml"}, "", ""},
		"one that does not": {map[string]string{"a b/grapnel.yaml": good, "a b/grapnel_test.yaml": holdsNot}, nil, "Test", "want"},
		"named":             {map[string]string{"x.yaml": bad, "y/z.yaml": good}, map[string]string{"policies": "x.yaml\ny/*.yaml"}, "Check", "file=x.yaml"},
		"input as code":     {map[string]string{"grapnel.yaml": good}, map[string]string{"policies": "$(touch pwned)\n`touch pwned`\n'; touch pwned; '\ngrapnel.yaml", "sarif": "$(touch pwned).sarif"}, "", ""},
		"name as option":    {map[string]string{"--help/grapnel.yaml": bad}, nil, "Check", "line=4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tt.files, tt.inputs)
			if failed := p.run(t); failed != tt.failed || !strings.Contains(p.out.String(), tt.out) {
				t.Errorf("the step %q fails, want %q and a text with %q:\n%s", failed, tt.failed, tt.out, p.out.String())
			}
			if _, err := os.Lstat(filepath.Join(p.dir, "pwned")); err == nil {
				t.Error("an input was run as code")
			}
			if junit := tt.inputs["junit"]; junit != "" {
				if data, err := os.ReadFile(filepath.Join(p.dir, junit)); err != nil || !strings.Contains(string(data), "<testsuite") {
					t.Errorf("%s: %v\n%s", junit, err, data)
				}
			}
		})
	}
}

func TestActionWritesSARIF(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"grapnel.yaml": bad}, map[string]string{"sarif": "out.sarif"})
	if failed := p.run(t); failed != "Check" {
		t.Errorf("the step %q fails, want Check", failed)
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "out.sarif"))
	var log struct {
		Runs []struct{ Results []struct{ RuleID string } }
	}
	if err != nil || json.Unmarshal(data, &log) != nil || len(log.Runs) != 1 || len(log.Runs[0].Results) == 0 || log.Runs[0].Results[0].RuleID != "bad-policy" {
		t.Errorf("out.sarif: %v\n%s", err, data)
	}
}

// The scripts use only flags that the commands have.
func TestActionsFlags(t *testing.T) {
	t.Parallel()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	bin, _, _ := strings.Cut(path, string(filepath.ListSeparator))
	help, err := exec.Command(filepath.Join(bin, "grapnel"), "test", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--junit", "--cover", "--threshold"} {
		if !strings.Contains(string(help), flag+" ") {
			t.Errorf("grapnel test has no flag %s, which the action gives:\n%s", flag, help)
		}
	}
}

// The command of each pre-commit hook exists and accepts files as arguments.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"grapnel.yaml": good, "bad/grapnel.yaml": bad, "ugly/grapnel.yaml": ugly}, nil)
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	bin, _, _ := strings.Cut(path, string(filepath.ListSeparator))
	run := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "grapnel"), args...)
		cmd.Dir = p.dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	help, err := run("--help")
	if err != nil {
		t.Fatal(err)
	}
	fails := map[string]string{"grapnel-check": "bad/grapnel.yaml"} // the file on which the hook fails
	changes := map[string]string{"grapnel-fmt": "ugly/grapnel.yaml"}
	var ids []string
	installs := map[string]bool{} // packages that pre-commit runs go install with
	for _, hook := range read(t, ".pre-commit-hooks.yaml").Items {
		id := text(hook.Get("id"))
		ids = append(ids, id)
		for _, pkg := range hook.Get("additional_dependencies").Items {
			if installs[text(pkg)] {
				continue
			}
			installs[text(pkg)] = true
			install := exec.Command("go", "install", text(pkg))
			install.Dir, install.Env = root, append(os.Environ(), "GOBIN="+t.TempDir())
			if out, err := install.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", id, err, out)
			}
		}
		if n := len(hook.Get("additional_dependencies").Items); n != 1 {
			t.Errorf("%s: %d additional dependencies, want the package of grapnel", id, n)
		}
		words := strings.Fields(text(hook.Get("entry")))
		if words[0] != "grapnel" || text(hook.Get("language")) != "golang" || !strings.Contains(help, "\n  "+words[1]+" ") {
			t.Errorf("%s runs %q in %s, and the commands are:\n%s", id, words, text(hook.Get("language")), help)
			continue
		}
		files := regexp.MustCompile(text(hook.Get("files")))
		if !files.MatchString("grapnel.yaml") || !files.MatchString("a/grapnel.yaml") || files.MatchString("a/other.yaml") {
			t.Errorf("%s is for the files %s", id, files)
		}
		if hook.Get("pass_filenames") != nil {
			continue
		}
		if out, err := run(append(words[1:], "grapnel.yaml")...); err != nil {
			t.Errorf("%s fails on a good file: %v\n%s", id, err, out)
		}
		if file := fails[id]; file != "" {
			if out, err := run(append(words[1:], file)...); err == nil {
				t.Errorf("%s is content with %s\n%s", id, file, out)
			}
		}
		if file := changes[id]; file != "" {
			_, err := run(append(words[1:], file)...)
			if data, readErr := os.ReadFile(filepath.Join(p.dir, file)); err != nil || readErr != nil || string(data) == ugly {
				t.Errorf("%s leaves %s as it is: %v %v", id, file, err, readErr)
			}
		}
	}
	if want := []string{"grapnel-check", "grapnel-fmt", "grapnel-test"}; !slices.Equal(ids, want) {
		t.Errorf("the hooks are %v, want %v", ids, want)
	}
}

// pre-commit installs every program of the root module, and the programs that the hooks name,
// into a directory that comes first on the PATH of its hooks. None of them may have the name of
// another common program.
func TestProgramsHideNoOthers(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./...", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.Fields(string(out))
	if len(paths) < 5 {
		t.Errorf("only these programs are found: %q", paths)
	}
	env, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "grapnel") { // it may be installed here
			continue
		}
		for _, dir := range []string{"/bin", "/usr/bin", "/usr/sbin", filepath.Join(strings.TrimSpace(string(env)), "bin")} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s would hide %s", path, filepath.Join(dir, name))
			}
		}
	}
}
