package hookcmd

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
)

// FuzzParseArgs checks that a command line is either valid or ends with the exit code of a usage
// error, never with 2, which would be a block.
func FuzzParseArgs(f *testing.F) {
	for _, line := range []string{"claude-code", "gemini\x00BeforeTool\x00--id=x", "--root\x00/r\x00--policy\x00a", "--root=\x00", "-\x00--", "--id", "--help=yes", "--drain\x00--version", "a\x00b\x00c", "nobody"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		inv, err := parseArgs(args)
		if err != nil {
			var stderr strings.Builder
			if exit := Main(args, strings.NewReader(""), io.Discard, &stderr); exit != exitUsage || !strings.HasPrefix(stderr.String(), "grapnel: error: ") {
				t.Errorf("%q: exit code %d, %q; parseArgs says %v", args, exit, stderr.String(), err)
			}
			return
		}
		if inv.root != "" && (inv.id != "" || !filepath.IsAbs(inv.root)) {
			t.Errorf("%q means %+v", args, inv)
		}
	})
}

// FuzzSessionRoot checks that no policy is searched for at a relative path, for any stored root
// of a session and any working directory from an agent.
func FuzzSessionRoot(f *testing.F) {
	f.Add([]byte("/a\x00/a"), "/a/b")
	f.Add([]byte("/a"), "")
	f.Add([]byte("\x00\x00"), "relative/../..")
	f.Add([]byte("../x\x00/"), "/a/\x00/../b")
	place := local.Place{State: f.TempDir()}
	f.Fuzz(func(t *testing.T, kept []byte, cwd string) {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "a"}, Session: grapnel.Session{ID: "s", CWD: "/"}}
		place.Dirs(ev, true) // writes the file
		files, err := filepath.Glob(filepath.Join(filepath.Join(place.State, "sessions"), "*", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("one session has the files %v, %v", files, err)
		}
		file := files[0]
		if err := os.WriteFile(file, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Remove(file) }()
		ev.Session = grapnel.Session{ID: "s", CWD: cwd}
		for i, dir := range place.Dirs(ev, true) {
			if !filepath.IsAbs(dir.Path) {
				t.Errorf("with %q kept, directory %d of %q is %q", kept, i, cwd, dir.Path)
			}
		}
	})
}
