package match

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestDeletes checks what lines delete in a project with real files.
func TestDeletes(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".git/HEAD": "", ".gitignore": "dist\n.env\n", "src/a.go": "", "src/b.go": "", "dist/a.js": "", ".env": "", "web/dist/a.js": "", "web/a.ts": "", "empty/x/.keep": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "src", "web/up": ".."} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"rm -rf dist": "rebuilt", "rm -rf src": "project", "rm -rf .env": "ignored", "rm -rf dist src": "rebuilt project", "rm -rf .": "root", "cd web && rm -rf dist": "rebuilt",
		"cd web && rm -rf ..": "root", "cd web && rm -rf ../.git": "repository", "rm -rf nothing": "unknown", "rm -rf $X": "unknown", "cd $X && rm -rf dist": "rebuilt", "cd $X && rm -rf src": "unknown",
		"rm -rf link": "", "rm -rf src/a.go": "", "rm -rf dist src/a.go": "rebuilt", "rm -rf link/": "project", "rm -rf web/up/": "root", "rm -rf web/up/src": "project", "rm -rf web/up": "", "rm -rf link/../web": "project",
		"rm -rf */dist": "rebuilt", "rm -f src/*.go": "project", "find . -name '*.go' -delete": "project", "find web -name dist -exec rm -rf {} +": "rebuilt", "find $X -name dist -exec rm -rf {} +": "rebuilt", "find /usr -name '*.md' -delete": "",
		"ssh box rm -rf src": "unknown", "ssh box rm -rf /srv/x/y": "outside", "ssh box rm -rf dist": "rebuilt", "docker exec c rm -rf /app/dist": "rebuilt", "rm -rf /": "system",
		"mkdir -p new && rm -rf new": "session", "mkdir -p src && rm -rf src": "project", "mkdir new && mv src new/ && rm -rf new": "project unknown", "echo web >> .gitignore; rm -rf dist": "project",
		"rm src/a.go": "", "ls": "", "rsync -a --delete web/ src/": "", "mkdir e && rsync -a --delete e/ src/": "project", "Remove-Item -Recurse src": "project",
		"python3 -c \"import shutil; shutil.rmtree('src')\"": "project",
	} {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{line}}}
		ev.Session.CWD = root
		if got := strings.Join((&FactCache{}).Of(ev).deleted(), " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
		for _, class := range []string{"project", "rebuilt", "unknown"} {
			m, err := (&FactCache{}).Matcher(&policyfile.Match{Deletes: []string{class}}, nil, "", Reading{})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := m.Match(ev, nil); err != nil || ok != slices.Contains(strings.Fields(want), class) {
				t.Errorf("%s: deletes %s: got %v, %v", line, class, ok, err)
			}
			if why := m.Explain(ev, nil); strings.Contains(why, "deletes") != slices.Contains(strings.Fields(want), class) {
				t.Errorf("%s: deletes %s: explained by %q", line, class, why)
			}
		}
	}
}

// TestDeletesInExceptions checks that all deletions of a command must have a class of an exception.
func TestDeletesInExceptions(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{"rm -rf dist": false, "rm -rf dist /tmp/x": false, "rm -rf dist src": true, "rm -rf dist; rm -rf src": true, "rm a": true} {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{line}}}
		ev.Session.CWD = root
		m, err := (&FactCache{}).Matcher(&policyfile.Match{Command: []string{"rm"}}, []policyfile.Match{{Deletes: []string{"rebuilt", "temporary"}}}, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Match(ev, nil); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", line, got, err, want)
		}
	}
}
