//go:build system && unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/policy"
)

var update = flag.Bool("update", false, "rewrite what is expected in testdata")

// The test binary runs as the agent if its name is agent.
func TestMain(m *testing.M) {
	if os.Args[0] == "agent" {
		traced()
		return
	}
	os.Exit(m.Run())
}

// A world is the environment of an agent: a working directory, a policy directory, and an
// endpoint.
type world struct {
	*endpoint
	dir string
}

func newWorld(t *testing.T, script string, files []txtar.File) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	w := &world{dir: dir}
	w.endpoint = newEndpoint(t)
	for line := range strings.Lines(w.fill(script)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var s step
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			t.Fatalf("script: %v in %s", err, line)
		}
		steps = append(steps, s)
	}
	w.play(steps)
	for _, name := range []string{"work", "root", "home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(w.fill(string(f.Data))), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// fill inserts the endpoint's address into a text of the test. blank removes values that change
// with every run from the agent's output.
func (w *world) fill(text string) string { return strings.ReplaceAll(text, "$URL", w.URL) }

var (
	times  = regexp.MustCompile(` +\d+\.\d\d ms`)
	events = regexp.MustCompile(`^([a-z]+\.[a-z]+) .* N ms(?:  (\S+))?`)
)

func (w *world) blank(text string) string {
	text = strings.NewReplacer(w.URL, "$URL", w.dir, "$DIR", "\r\n", "\n").Replace(text)
	return times.ReplaceAllString(text, " N ms")
}

func (w *world) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{
		Path: self, Args: append([]string{"agent", "--model", "m", "--root", filepath.Join(w.dir, "root")}, args...),
		Dir: filepath.Join(w.dir, "work"),
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.dir, "home"), "GORACE=atexit_sleep_ms=0", "TMPDIR=" + os.TempDir(),
			"OPENAI_BASE_URL=" + w.URL + "/v1", "OPENAI_API_KEY=sk-of-the-endpoint", "AGENT_TRACE=" + filepath.Join(w.dir, "trace"),
		},
	}
}

// run runs an agent without a terminal and returns its output and exit code.
func (w *world) run(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	cmd := w.command(t, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// inOrder sorts the trace of calls that ran in parallel by their IDs.
func inOrder(text string) string {
	type block struct{ id, text string }
	var b strings.Builder
	var calls []block
	flush := func() {
		slices.SortStableFunc(calls, func(a, b block) int { return strings.Compare(a.id, b.id) })
		for _, c := range calls {
			b.WriteString(c.text)
		}
		calls = nil
	}
	for line := range strings.Lines(text) {
		m := events.FindStringSubmatch(line)
		switch {
		case m != nil && m[2] != "" && (strings.HasPrefix(m[1], "tool.") || strings.HasPrefix(m[1], "permission.")):
			calls = append(calls, block{m[2], line})
		case m == nil && strings.HasPrefix(line, "    ") && len(calls) > 0:
			calls[len(calls)-1].text += line
		default:
			flush()
			b.WriteString(line)
		}
	}
	flush()
	return b.String()
}

var notes = regexp.MustCompile(`(?m)(^(shell|read|write|fetch|task|grapnel): .*\n)+`)

// notesInOrder sorts the notes of calls that ran in parallel.
func notesInOrder(text string) string {
	return notes.ReplaceAllStringFunc(text, func(block string) string {
		return strings.Join(slices.Sorted(strings.Lines(block)), "")
	})
}

// files returns the new and changed files in the directories.
func (w *world) files(t *testing.T, were []txtar.File) []txtar.File {
	t.Helper()
	old := map[string]string{}
	for _, f := range were {
		old[f.Name] = w.fill(string(f.Data))
	}
	var now []txtar.File
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name == "root/state" {
				return fs.SkipDir
			}
			return nil
		}
		if name == "trace" {
			return nil
		}
		text, err := os.ReadFile(path)
		if was, ok := old[name]; !ok || was != string(text) {
			now = append(now, txtar.File{Name: "after/" + name, Data: []byte(w.blank(string(text)))})
		}
		delete(old, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range old {
		now = append(now, txtar.File{Name: "after/" + name, Data: []byte("(gone)\n")})
	}
	slices.SortFunc(now, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	return now
}

// Each file in testdata is a session: the existing files, the model's responses and the user's
// input, followed by the expected results: the requests to the model, the user's screen, the
// outcome of every event, and the files. Every hook of its policy has an effect. Commands
// are not prompts, but an answer to a question that is treated as text is one. A refused
// call does not affect the other calls of its batch. Hooks do not get the secrets of a tool.
//
// Proves: IC-27, IC-28, IC-29
func TestSessions(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatal("there are no sessions", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			want, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			given := map[string]string{}
			got := &txtar.Archive{Comment: want.Comment}
			var files []txtar.File
			for _, f := range want.Files {
				switch {
				case strings.Contains(f.Name, "/") && !strings.HasPrefix(f.Name, "after/"):
					files = append(files, f)
				case slices.Contains([]string{"args", "script", "types", "traced"}, f.Name):
					given[f.Name] = string(f.Data)
				default:
					continue
				}
				got.Files = append(got.Files, f)
			}
			w := newWorld(t, given["script"], files)
			var args []string
			for line := range strings.Lines(given["args"]) {
				args = append(args, w.fill(strings.TrimSuffix(line, "\n")))
			}
			var stdout, stderr string
			var exit int
			if types, ok := given["types"]; ok {
				stdout, stderr, exit = w.runAtTerminal(t, types, args...)
			} else {
				stdout, stderr, exit = w.run(t, args...)
			}
			add := func(name, text string) {
				text = w.blank(text)
				if text != "" && !strings.HasSuffix(text, "\n") {
					text += "\n"
				}
				got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(text)})
			}
			add("exit", fmt.Sprint(exit))
			add("stdout", stdout)
			add("stderr", notesInOrder(w.blank(stderr)))
			if _, ok := given["traced"]; ok {
				add("events", inOrder(w.blank(w.read(t, "trace")+"\n")))
			}
			add("requests", w.requests())
			got.Files = append(got.Files, w.files(t, files)...)
			text := txtar.Format(got)
			if *update {
				if err := os.WriteFile(name, text, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(want)), string(text)); diff != "" {
				t.Errorf("%s (-want +got; accept it with -update):\n%s", name, diff)
			}
		})
	}
}

// TestReadme checks that README.md shows the policy of testdata/readme.txtar.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	session, err := txtar.ParseFile(filepath.Join("testdata", "readme.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range session.Files {
		if f.Name == "root/grapnel.yaml" && !strings.Contains(string(page), "\n"+string(f.Data)+"```\n") {
			t.Errorf("README.md has not what %s of the session is:\n%s", f.Name, f.Data)
		}
	}
}

// TestEveryHookHasAnEffect checks that every hook of testdata/session.txtar appears in the trace
// or writes a file.
func TestEveryHookHasAnEffect(t *testing.T) {
	t.Parallel()
	session, err := txtar.ParseFile(filepath.Join("testdata", "session.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, f := range session.Files {
		sections[f.Name] = string(f.Data)
	}
	writes := map[string]string{"log": "after/events.log", "what-hooks-see": "after/seen.json"}
	p, wrong := policy.Parse("grapnel.yaml", []byte(sections["root/grapnel.yaml"]))
	if len(wrong) > 0 || len(p.Hooks) < 25 {
		t.Fatal("the policy has", len(p.Hooks), "hooks", wrong)
	}
	for _, h := range p.Hooks {
		lines := regexp.MustCompile(`(?m)^    by       `+h.Name+` \(grapnel\.yaml:\d+\): (.*)$`).FindAllStringSubmatch(sections["events"], -1)
		effect := slices.ContainsFunc(lines, func(m []string) bool { return m[1] != "no opinion" && !strings.Contains(m[1], "failed") })
		if file, ok := writes[h.Name]; ok {
			effect = sections[file] != ""
		}
		if len(lines) == 0 || !effect {
			t.Errorf("the hook %s has no effect: %q", h.Name, lines)
		}
	}
}
