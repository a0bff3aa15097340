package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// write creates files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func command(line string) *grapnel.Event {
	input, _ := json.Marshal(map[string]string{"command": line})
	return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: input, Commands: []string{line}}}
}

func blocks(word string) string {
	return fmt.Sprintf("version: 1\nhooks:\n  - {name: no-%[1]s, on: tool.before, match: {command: [%[1]s]}, block: not %[1]s}\n", word)
}

// In force are the user's policy, the policies of the project down to the working directory, and
// the named policies. A project's policies must be trusted.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := match.RealPath(t.TempDir())
	write(t, dir, map[string]string{
		"root/grapnel.yaml": blocks("deploy"), "project/.git/HEAD": "", "project/grapnel.yaml": blocks("push"),
		"project/sub/grapnel.yaml": blocks("merge"), "project/sub/named.yaml": blocks("tag"), "other/grapnel.yaml": blocks("reset"),
	})
	opts := &local.Options{Root: filepath.Join(dir, "root"), CWD: filepath.Join(dir, "project", "sub"), Policies: []string{"named.yaml"}}
	decide := func() (blocked []string) {
		t.Helper()
		engine, err := local.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "project"); engine.Root != want {
			t.Errorf("the root is %q, want %q", engine.Root, want)
		}
		for _, word := range []string{"deploy", "push", "merge", "tag", "reset"} {
			if v := engine.Fire(t.Context(), command(word)); v.Decision == grapnel.Block {
				blocked = append(blocked, word)
			}
		}
		if err := engine.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return blocked
	}
	if got := fmt.Sprint(decide()); got != "[deploy tag]" {
		t.Errorf("untrusted: %s is blocked, want deploy and tag", got)
	}
	place, err := local.Locate(opts.Root, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"project/grapnel.yaml", "project/sub/grapnel.yaml"} {
		x, errs := load.Examine(filepath.Join(dir, name), filepath.Join(dir, "project"), load.Packs{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if err := place.Trusts().Keep(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(decide()); got != "[deploy push merge tag]" {
		t.Errorf("trusted: %s is blocked, want all but reset", got)
	}
}

// If the program has no client for servers, a hook with http: fails, and its on_error decides. Open
// does not leave it out.
func TestHooksWithoutServers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{
		"grapnel.yaml": "version: 1\nhooks:\n  - {name: ask, on: tool.before, match: {command: [deploy]}, http: 'https://example.com/x', on_error: closed}\n",
	})
	engine, err := local.Open(t.Context(), &local.Options{Root: root, CWD: root})
	if err != nil {
		t.Fatal(err)
	}
	v := engine.Fire(t.Context(), command("deploy"))
	if v.Decision != grapnel.Block || !strings.Contains(fmt.Sprint(v), "Options.HTTP") {
		t.Errorf("%+v, want a block that names Options.HTTP", v)
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Open accepts a worker. It must not build the worker like a program that runs once, because that
// would be an error.
func TestWorkers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"grapnel.yaml": "version: 1\nhooks:\n  - {name: count, on: tool.before, worker: sh worker.sh}\n"})
	engine, err := local.Open(t.Context(), &local.Options{Root: root, CWD: root})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(engine.Specs("")); n == 0 {
		t.Error("there is no hook")
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Loaded can change the policies in force. If it returns an error, Open fails.
func TestLoaded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"grapnel.yaml": blocks("deploy")})
	refuse := false
	opts := &local.Options{Root: root, CWD: root, Loaded: func(set *load.Set) error {
		if refuse {
			return context.Canceled
		}
		set.Specs = nil
		return nil
	}}
	engine, err := local.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if v := engine.Fire(t.Context(), command("deploy")); v.Decision != grapnel.None {
		t.Errorf("%+v, want nothing, since the policies were taken out", v)
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
	refuse = true
	if engine, err = local.Open(t.Context(), opts); err == nil {
		t.Errorf("Open = %+v, want the error of Loaded", engine)
	}
}
