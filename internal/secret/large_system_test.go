//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package secret

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// The work grows with the size of a text. If it grew with the square, 1 MB would take
// longer than the timeout of the tests.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, text := range noise(1 << 20) {
		found, hidden := Find(text), Hide(text)
		if len(found) > len(text) || len(hidden) > 8*len(text) {
			t.Errorf("1 MB %s: %d secrets, %d bytes after Hide", name, len(found), len(hidden))
		}
	}
}

// What is looked with is the expression of the file, for texts that it fits and for such
// as nearly fit.
func TestProgramsAreTheExpressions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i, w := range readRules(t) {
		if strings.HasSuffix(w.ID, "private-key") {
			continue // chance makes no headers of PEM that end where they should; see TestFind
		}
		re := regexp.MustCompile(w.Regex)
		tree, err := syntax.Parse(w.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		fits, missed := 0, 0
		for n := range 300 {
			text := sample(rng, tree)
			if n%2 == 1 && text != "" { // one byte is another
				b := []byte(text)
				b[rng.IntN(len(b))] = "aZ09-_=/. \n\"'x"[rng.IntN(14)]
				text = string(b)
			}
			wantBegin, wantEnd := secretAt(re, text)
			gotBegin, gotEnd := -1, -1
			m := machine{text: text}
			for at := range len(text) { // leftmost, as the expression does
				if m.start(table[i].prog, at) {
					gotBegin, gotEnd = m.begin, m.end
					break
				}
			}
			if wantBegin >= 0 {
				fits++
			}
			if gotBegin < 0 && wantBegin >= 0 {
				missed++ // it would have fit with less of what was read before
				continue
			}
			if gotBegin != wantBegin || gotEnd != wantEnd {
				t.Errorf("%s: %q\nin %q gives %d to %d, the expression %d to %d", w.ID, w.Regex, text, gotBegin, gotEnd, wantBegin, wantEnd)
				break
			}
		}
		if fits < 100 || missed*4 > fits {
			t.Errorf("%s: %d samples fit, and of them %d are missed", w.ID, fits, missed)
		}
	}
}

// Every precise rule finds what it is for, wherever in a text it stands, and only the
// secret of it is masked.
func TestEveryRuleFinds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for i, w := range readRules(t) {
		if w.loose || w.ID == "private-key" { // as above
			continue
		}
		tree, err := syntax.Parse(w.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		found, tried := 0, 0
		for range 200 {
			text := certain(rng, w.ID, sample(rng, tree))
			for _, around := range [][2]string{{"", ""}, {"see ", " there"}, {"{\"k\": \"v\"}\n", "\n"}, {"a=1;", ";b=2"}} {
				tried++
				whole := around[0] + text + around[1]
				got := Find(whole)
				if slices.ContainsFunc(got, func(f Finding) bool { return f.Rule == w.ID || table[f.rank].loose }) {
					found++
				} else if len(got) > 0 && w.check(t) != "checkNone" {
					found++ // another rule says more of it
				}
				for _, f := range got {
					if f.Begin+f.Keep > f.End || f.End > len(whole) {
						t.Fatalf("%s: %q gives %+v", w.ID, whole, f)
					}
				}
			}
		}
		// Chance also makes what is even, or holds a word of those that say it is none.
		if found*10 < tried*4 {
			t.Errorf("%s is found in %d of %d texts, for example not in %q", table[i].id, found, tried, certain(rng, w.ID, sample(rng, tree)))
		}
	}
}
