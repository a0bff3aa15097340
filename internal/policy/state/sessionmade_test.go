package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

const guardTrees = "  - {name: guard-trees, on: tool.before, match: {deletes: [project, unknown]}, ask: Sure?}\n"

// TestSessionMade checks that a directory that the session made is free, and nothing else.
func TestSessionMade(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]struct {
		before func(*pastSession)
		line   string
		want   grapnel.Decision
	}{
		"mkdir":                  {func(s *pastSession) { s.shell("mkdir -p new/a") }, "rm -rf new", grapnel.None},
		"below it":               {func(s *pastSession) { s.shell("mkdir -p new/a") }, "rm -rf new/a", grapnel.None},
		"contents":               {func(s *pastSession) { s.shell("mkdir -p new/a") }, "rm -rf new/*", grapnel.None},
		"write":                  {func(s *pastSession) { s.write("new/b/notes.md", "x") }, "rm -r new", grapnel.None},
		"redirection":            {func(s *pastSession) { s.shell("mkdir new; echo x > new/a.log") }, "rm -r new", grapnel.None},
		"clone":                  {func(s *pastSession) { s.shell("git clone https://example.com/x new") }, "rm -r new", grapnel.None},
		"worktree":               {func(s *pastSession) { s.shell("git worktree add new topic") }, "rm -r new", grapnel.None},
		"was there":              {func(s *pastSession) { s.shell("mkdir -p src") }, "rm -rf src", grapnel.Ask},
		"written in the project": {func(s *pastSession) { s.write("src/new.go", "x") }, "rm -rf src", grapnel.Ask},
		"all of the project":     {func(s *pastSession) { s.shell("mkdir -p new") }, "rm -rf new src", grapnel.Ask},
		"moved into it":          {func(s *pastSession) { s.shell("mkdir new"); s.shell("mv src new/") }, "rm -rf new", grapnel.Ask},
		"moved to its name":      {func(s *pastSession) { s.shell("mkdir new"); s.shell("rmdir new; mv src new") }, "rm -rf new", grapnel.Ask},
		"moved below it":         {func(s *pastSession) { s.shell("mkdir -p new/a"); s.shell("mv src/* new/a/") }, "rm -rf new", grapnel.Ask},
		"moved by git":           {func(s *pastSession) { s.shell("mkdir new"); s.shell("git mv src new/src") }, "rm -rf new", grapnel.Ask},
		"moved by code": {func(s *pastSession) {
			s.shell("mkdir new")
			s.shell(`python3 -c "import shutil; shutil.move('src', 'new/src')"`)
		}, "rm -rf new", grapnel.Ask},
		"moved away and renamed": {func(s *pastSession) { s.shell("mv src new") }, "rm -rf new", grapnel.Ask},
		"another session":        {func(s *pastSession) { s.shell("mkdir new"); clear(s.counter) }, "rm -rf new", grapnel.Ask},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPastSession(t, guardTrees)
			for _, file := range []string{".git/HEAD", "src/a.go"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, file)), 0o700); err != nil {
					t.Fatal(err)
				}
				s.put(file, "")
			}
			play.before(s)
			if got := s.shell(play.line); got != play.want {
				t.Errorf("got %v, want %v", got, play.want)
			}
		})
	}
}

// TestDeletesUnknownClass checks the message for a wrong class.
func TestDeletesUnknownClass(t *testing.T) {
	t.Parallel()
	_, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n  - {name: a, on: tool.before, match: {deletes: [projects]}, block: no}\n"))
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), `not "projects"`) {
		t.Errorf("got %v", errs)
	}
}
