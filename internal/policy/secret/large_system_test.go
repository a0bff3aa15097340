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

// The time is proportional to the size of the text. If it were quadratic, 1 MB would take longer
// than the timeout of the tests.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, text := range noise(1 << 20) {
		found, hidden := Find(text), Hide(text)
		if len(found) > len(text) || len(hidden) > 8*len(text) {
			t.Errorf("1 MB %s: %d secrets, %d bytes after Hide", name, len(found), len(hidden))
		}
	}
}

// A compiled program matches the same texts as the expression in the file, for matching texts and
// for texts that almost match.
func TestProgramsAreTheExpressions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i, w := range readRules(t) {
		if strings.HasSuffix(w.ID, "private-key") {
			continue // random texts are not complete PEM blocks; see TestFind
		}
		re := regexp.MustCompile(w.Regex)
		tree, err := syntax.Parse(w.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		fits, missed := 0, 0
		for n := range 300 {
			text := sample(rng, tree)
			if n%2 == 1 && text != "" { // change one byte
				b := []byte(text)
				b[rng.IntN(len(b))] = "aZ09-_=/. \n\"'x"[rng.IntN(14)]
				text = string(b)
			}
			wantBegin, wantEnd := secretAt(re, text)
			gotBegin, gotEnd := -1, -1
			m := machine{text: text}
			for at := range len(text) { // leftmost, like the expression
				if m.start(table[i].prog, at) {
					gotBegin, gotEnd = m.begin, m.end
					break
				}
			}
			if wantBegin >= 0 {
				fits++
			}
			if gotBegin < 0 && wantBegin >= 0 {
				missed++ // it would match with a shorter match of an earlier part
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

// Every precise rule finds its secrets at any position in a text, and only the secret is masked.
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
					found++ // another rule is more specific
				}
				for _, f := range got {
					if f.Begin+f.Keep > f.End || f.End > len(whole) {
						t.Fatalf("%s: %q gives %+v", w.ID, whole, f)
					}
				}
			}
		}
		// Random texts may also have a low entropy, or contain a word that marks an example.
		if found*10 < tried*4 {
			t.Errorf("%s is found in %d of %d texts, for example not in %q", table[i].id, found, tried, certain(rng, w.ID, sample(rng, tree)))
		}
	}
}
