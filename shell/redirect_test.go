package shell

import (
	"slices"
	"testing"
)

// The target of a redirection is known like an operand, or the line is unknown.
func TestRedirections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line  string
		files []string // among Reads or Writes
		known bool     // there is no entry in Unknown
	}{
		{"X=a; echo > $X", []string{"a"}, true},
		{`X=a; echo >> "$X"/b`, []string{"a/b"}, true},
		{"X=a; echo >| ${X}b", []string{"ab"}, true},
		{"X=a; cat < $X", []string{"a"}, true},
		{"X=a; cat <> $X", []string{"a"}, true},
		{"X=a; exec 3> $X", []string{"a"}, true},
		{"X=a; { echo; } > $X", []string{"a"}, true},
		{"X=a; > $X", []string{"a"}, true},
		{"D=~/x; cat > $D/k", []string{"~/x/k"}, true},
		{"X=a; X=b; echo > $X", []string{"a", "b"}, true},
		{"X=a; X+=b; echo > $X", []string{"ab"}, true},
		{"X=a Y=b; echo > $X/$Y", []string{"a/b"}, true},
		{"if x; then X=a; else X=b; fi; echo > $X", []string{"a", "b"}, true},
		{"[ x ] && D=a; echo > $D/etc", []string{"a/etc", "/etc"}, true},
		{"for f in a b c d e; do echo > $f; done", []string{"a", "b", "c", "d", "e"}, true},
		{"for f in {1..99}; do echo > a$f; done", []string{"a*"}, true},
		{"for f in *.md; do echo > ${f%.md}.html; done", []string{"*.html"}, true},
		{"for ((i = 0; i < 9; i++)); do echo > a$i; done", []string{"a*"}, true},
		{"i=0; while x; do i=$((i+1)); echo > a$i; done", []string{"a0", "a*"}, true},
		{"X=a; while y; do echo > $X; X=b; done", []string{"a", "b"}, true},
		{"f() { echo > $1; }; f a", []string{"a"}, true},
		{"f() { local o=$1; shift; make > $o; }; f a all", []string{"a"}, true},
		{"X=a; f() { echo > $X; }; X=b; f", []string{"a", "b"}, true},
		{"f() { g \"$1\"; }; g() { echo > \"$1\"; }; f a", []string{"a"}, true},
		{"f() { cd a; }; f; echo > b", []string{"b", "a/b"}, true},
		{"set -- a b; echo > $2", []string{"b"}, true},
		{"sh -c 'echo > $1' x a", []string{"a"}, true},
		{"sh -c 'echo > $0' a", []string{"a"}, true},
		{"eval 'X=a'; echo > $X", []string{"a"}, true},
		{"trap 'echo > $X' EXIT; X=a", []string{"a"}, false},
		{"A=(a b); echo > ${A[1]}", []string{"b"}, true},
		{"printf -v X %02d 7; echo > $X", []string{"07"}, true},
		{"echo > a{b,}c", []string{"abc", "ac"}, true},
		{"echo > $(echo a)", []string{"a"}, true},
		{"echo > ${X:-a}", []string{"a"}, true},
		{"echo > a.$$", []string{"a.*"}, true},
		{"echo > a-$(date +%F).log", []string{"a-*.log"}, true},
		{"cd a* && > k", []string{"k", "a*/k"}, true},
		{"exec {fd}> a; echo >&$fd", []string{"a"}, true},
		{"echo > >(tee a)", nil, true},
		{"echo 2>&1 >/dev/tcp/$H/80", nil, true},
		{"read X <<< a; echo > $X", []string{"a"}, false},

		{"echo > $Y", nil, false},
		{"echo > a/$Y", nil, false},
		{"X=$(cat l); echo > $X", nil, false},
		{"X=a; X=$(cat l); echo > $X", []string{"a"}, false},
		{"while read -r f; do echo > $f; done < l", []string{"l"}, false},
		{"for f in $(cat l); do echo > $f; done", nil, false},
		{"for f in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 a/b; do echo > $f; done", []string{"1"}, false},
		{"f() { echo > $1; }; f $Y", nil, false},
		{"f() { echo > $1; }", nil, false},
		{"f() { echo > $1; }; for x in a b c d e; do f $x; done", []string{"c"}, false},
		{"set -- a b; shift; echo > $1", []string{"a"}, false},
		{"set -- a b; for n in 1 2; do echo > $1; shift; done", []string{"a"}, false},
		{"R=X; X=a; echo > ${!R}", nil, false},
		{"declare -n R=X; X=a; echo > $R", []string{"X"}, false},
		{"IFS=/; X=a/b; Y=($X); echo > ${Y[0]}", []string{"a/b"}, false},
		{"mapfile -t A < l; echo > ${A[0]}", []string{"l"}, false},
		{"declare \"$N=b\"; X=a; echo > $X", []string{"a"}, false},
		{"echo > $(mktemp)", nil, false},
		{"cd \"$(git rev-parse --show-toplevel)\" && make > log", []string{"log"}, false},
		{"X=a; echo > ${X:0:1}*$Y", nil, false},
	} {
		s := Parse(tt.line)
		for _, file := range tt.files {
			if !slices.Contains(s.Reads, file) && !slices.Contains(s.Writes, file) {
				t.Errorf("%s\nreads %q and writes %q, not %q", tt.line, s.Reads, s.Writes, file)
			}
		}
		if known := len(s.Unknown) == 0; known != tt.known {
			t.Errorf("%s\nis known: %v, want %v: %q", tt.line, known, tt.known, s.Unknown)
		}
		if tt.files == nil && len(s.Reads)+len(s.Writes) > 0 {
			t.Errorf("%s\nreads %q and writes %q, want none", tt.line, s.Reads, s.Writes)
		}
	}
}

// Usual places do not hide anything; other computed targets do.
func TestHiddenTargets(t *testing.T) {
	t.Parallel()
	for line, hides := range map[string]bool{
		"echo > $Y":                                         true,
		"echo > $D/out":                                     true,
		"cat < $Y":                                          true,
		"echo x > $(head -1 list)":                          true,
		"tmp=$(mktemp -d); echo > $tmp/out":                 false,
		"echo a=b >> $GITHUB_OUTPUT":                        false,
		"echo > ${TMPDIR:-/tmp}/x":                          false,
		"GITHUB_ENV=$(cat f); echo > $GITHUB_ENV":           true,
		"for f in $(git ls-files); do wc $f > out/$f; done": false,
		"cd $(mktemp -d) && echo > x":                       false,
	} {
		if got := len(Parse(line).Hidden()) > 0; got != hides {
			t.Errorf("%s hides something: %v, want %v: %q", line, got, hides, Parse(line).Hidden())
		}
	}
}
