package hookcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// tree creates directories below a new one, and returns the new one.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := match.RealPath(t.TempDir())
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The user is informed about a refused root: at the prompt, on stderr and in the Record. The
// guards of the working directory are active.
func TestRefusedRootIsReported(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git")
	root := trusted(t, dir, "p")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	id := "refused"
	shard := filepath.Join(filepath.Join(place.State, "sessions"), nameOf("claude-code", id)[:2])
	if err := os.MkdirAll(shard, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(shard, fmt.Sprint(i)), []byte("/x\x00/x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, stderr := call(root, id, filepath.Join(dir, "p"), "deploy")
	if !strings.Contains(out, "not from p") || !strings.Contains(stderr, "cannot store the root of this session") {
		t.Errorf("a blocked call: %q, %q", out, stderr)
	}
	prompt, err := json.Marshal(map[string]string{"session_id": id, "cwd": dir, "hook_event_name": "UserPromptSubmit", "prompt": "hi"})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	Main([]string{"claude-code", "--root", root}, bytes.NewReader(prompt), &stdout, &bytes.Buffer{})
	if !strings.Contains(stdout.String(), "systemMessage") || !strings.Contains(stdout.String(), "too many sessions were active") {
		t.Errorf("the reply to a prompt is %q, want a message", stdout.String())
	}
	warm := NewWarm(WarmOptions{State: place.State, Keep: func(context.Context, [][]byte, []Notice, bool) error { return nil }})
	home, _ := os.UserHomeDir()
	reply, err := warm.Answer(t.Context(), &client.Question{Agent: "claude-code", Root: root, Home: home, Payload: prompt})
	if err != nil || string(reply.Stdout) != stdout.String() {
		t.Errorf("the daemon's reply is %s, %v, want %s", reply.Stdout, err, stdout.String())
	}
	var records []byte
	files, _ := filepath.Glob(filepath.Join(place.State, spool.JournalDir, "*.jsonl"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, data...)
	}
	if n := bytes.Count(records, []byte(`"error":"cannot store the root of this session`)); n != 2 {
		t.Errorf("%d Records say so, want 2:\n%s", n, records)
	}
}

// In the directory of another project, its trusted policy applies too, and can only add guards
// there. In an earlier version only the root's policies applied.
func TestTrustedAboveTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	dir := tree(t, "mine/.git", "work/other/.git", "work/other/sub", "untrusted/.git")
	trusted(t, dir, "mine")
	trusted(t, dir, "work")
	root := trusted(t, dir, "work/other")
	if err := os.WriteFile(filepath.Join(dir, "untrusted", local.ProjectPolicy), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, guards bool) local.Dir {
		return local.Dir{Path: filepath.Join(dir, name), GuardsOnly: guards}
	}
	p.Dirs(inProject(filepath.Join(dir, "mine")), true)
	for cwd, want := range map[string][]local.Dir{
		"mine":           {at("mine", false)},
		"work/other/sub": {at("mine", false), at("work/other", true), at("work", true)},
		"work":           {at("mine", false), at("work", true)},
		"untrusted":      {at("mine", false)},
		".":              {at("mine", false)},
	} {
		if diff := cmp.Diff(want, p.Dirs(inProject(filepath.Join(dir, cwd)), true)); diff != "" {
			t.Errorf("in %s (-want +got)\n%s", cwd, diff)
		}
	}
	for _, d := range p.Files(nil, p.DirsOf(filepath.Join(dir, "work/other"))) {
		if d.NoAllow != (d.Path == filepath.Join(dir, "work", local.ProjectPolicy)) {
			t.Errorf("%s: its allow has no effect: %t", d.Path, d.NoAllow)
		}
	}
	if out, _ := call(root, "s", filepath.Join(dir, "work/other/sub"), "deploy"); !strings.Contains(out, "not from work/other") {
		t.Errorf("the answer is %q, want the block of the other project", out)
	}
}

// With a grant, a project's policy can allow actions in its own sessions. In a session of another
// project it only adds guards.
func TestOtherProjectsAllowNothing(t *testing.T) {
	t.Parallel()
	dir := tree(t, "mine/.git", "other/.git", "root")
	root := filepath.Join(dir, "root")
	p, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "other", local.ProjectPolicy)
	write(p.Policy, "version: 1\ngrants: [{source: '**', may: [allow]}]\n")
	write(file, "version: 1\nhooks:\n  - {name: fine, on: tool.before, match: {command: [make]}, allow: fine}\n")
	x, errs := load.Examine(file, filepath.Dir(file), load.Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := p.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	if out, stderr := call(root, "at home", filepath.Join(dir, "other"), "make"); !strings.Contains(out, `"allow"`) {
		t.Errorf("its own session: %q, %q, want allow", out, stderr)
	}
	p.Dirs(&grapnel.Event{Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "guest", CWD: filepath.Join(dir, "mine")}}, true)
	if out, _ := call(root, "guest", filepath.Join(dir, "other"), "make"); strings.Contains(out, `"allow"`) {
		t.Errorf("another project's session: %q, want no allow", out)
	}
	if !slices.ContainsFunc(p.Dirs(&grapnel.Event{Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "guest", CWD: filepath.Join(dir, "other")}}, false), func(d local.Dir) bool { return d.GuardsOnly }) {
		t.Error("the other project's policy does not apply at all")
	}
}

func inProject(cwd string) *grapnel.Event {
	return &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "a"}, Session: grapnel.Session{ID: "s", CWD: cwd}}
}
