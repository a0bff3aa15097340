package shell

import "testing"

// Names of variables and directories do not decide; the values that the line gives them do.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line, pattern string
		want          bool
	}{
		{`d=$(mktemp -d) && rm -rf "$d"`, `rm -rf '$(mktemp'*`, true},
		{`d="$(mktemp -d)/x"; e=$d/y; rm -rf "$e/z"`, `rm -rf '$(mktemp'*`, true},
		{`d=/tmp/work; rm -rf "$d"`, `rm -rf '$(mktemp'*`, true},
		{`d=/tmp/../home; rm -rf "$d"`, `rm -rf '$(mktemp'*`, false},
		{`d=$(mktemp -d); d=~; rm -rf "$d"`, `rm -rf '$(mktemp'*`, false},
		{`d=$(mktemp -d; echo ~); rm -rf "$d"`, `rm -rf '$(mktemp'*`, false},
		{`rm -rf "$tmp"`, `rm -rf '$tmp'`, true},
		{`tmp=$(realpath ~/work); rm -rf "$tmp"`, `rm -rf '$tmp'`, false},
		{`read tmp < list; rm -rf "$tmp"`, `rm -rf '$tmp'`, false},
		{`for tmp in */; do rm -rf "$tmp"; done`, `rm -rf '$tmp'`, false},
		{`ls -d ~/*/ | while read tmp; do rm -rf "$tmp"; done`, `rm -rf '$tmp'`, false},
		{`x="$(pwd)/build"; rm -rf "$x"`, "rm -rf ./build", true},
		{`x=dist; rm -rf "$x"`, "rm -rf dist", true},
	} {
		s := Parse(tt.line)
		p, err := Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for i := range s.Commands {
			c := &s.Commands[i]
			got = got || c.Name == "rm" && len(c.Args) > 0 && !c.Args[len(c.Args)-1].Literal && MatchWhole([]*Pattern{p}, s, i) == Yes
		}
		if got != tt.want {
			t.Errorf("%q is the whole of the computed rm in %q: %v, want %v", tt.pattern, tt.line, got, tt.want)
		}
	}
}

// A directory that the line moved or linked is deleted under its old name too.
func TestMovedDirectories(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"mv ~ dist && rm -rf dist":                  true,
		"mv ~ node_modules/ && rm -rf node_modules": true,
		"mv -t /tmp ~ && rm -rf /tmp/*":             true,
		"mv ~ /tmp/.$RANDOM && rm -rf /tmp/.*":      true,
		"ln -s ~ build && rm -rf build/":            true,
		"mount --bind ~ target; rm -rf target":      true,
		"ln -s ~ build && rm -rf dist":              false,
		"mv ~ dist && ls dist":                      false,
		"cp -r ~ dist && rm -rf dist":               false,
	} {
		checkDeletesHome(t, line, want)
	}
}
