package match

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A command that takes Grapnel's files away has them among its paths.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, name := range []string{".git", "tools", "bin"} {
		if err := os.Mkdir(filepath.Join(project, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "tools", ownProgram), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	const state, policy, program = ".local/state/grapnel/state", ".config/grapnel/grapnel.yaml", ownProgram
	for line, want := range map[string]string{
		"mv ~/.local ~/x":                            state,
		"mv /home/dev/.local/state x":                state,
		"rm -rf ~/.local/state/grapnel":              state,
		"chmod 000 ~/.local":                         state,
		"chmod -R 0644 ~/.local/state":               state,
		"chmod u-x ~/.local":                         state,
		"chmod a=r ~/.local":                         state,
		"mount --bind /tmp/x ~/.local/state":         state,
		"cp k ~/.loc*/st*/gr*/approvals/":            state,
		"cd ~/.local; echo > state/gr*/approvals/k":  state,
		"cd ~/.local/state/grapnel && tar xf /tmp/x": state,
		"cd ~/.local/st*/gr* && make":                state,
		"mv ~/.config x":                             policy,
		"mv ~/go/bin x":                              program,
		"chmod 644 /opt/x/bin":                       program,
		"rm ~/go/bin/*":                              program,
		"cd ~/go/bin && mv * /tmp":                   program,
		"rename a b ~/go/bin/*":                      program,
		"mv tools x":                                 program,
		"chmod -x tools":                             program,

		"ls ~/.local/state/grapnel":                "",
		"cd ~/.local/state/grapnel && cat records": "",
		"chmod 755 ~/.local":                       "",
		"chmod go-rwx ~/.local":                    "",
		"chmod +x ~/go/bin/tool":                   "",
		"mv tool ~/.local/bin":                     "",
		"cp tool ~/go/bin/":                        "",
		"rm ~/go/bin/tool":                         "",
		"rm ~/.local/share/x":                      "",
		"rm -rf ~/.config/other":                   "",
		"rm -rf bin":                               "",
		"rm bin/*":                                 "",
		"rm *":                                     "",
		"cp x *":                                   "",
	} {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: project, Root: project}, Tool: &grapnel.Tool{Class: grapnel.ClassShell, Commands: []string{line}}}
		names := (&Facts{Event: ev}).findPaths()
		own := slices.ContainsFunc(names, func(p namedPath) bool {
			return strings.HasSuffix(p.name, state) || strings.HasSuffix(p.name, policy) || strings.HasSuffix(p.name, "/"+program)
		})
		if want == "" && own || want != "" && !slices.ContainsFunc(names, func(p namedPath) bool { return strings.HasSuffix(p.name, want) }) {
			t.Errorf("%s\nnames %v, want %q", line, names, want)
		}
	}
}
