// Package secret finds keys, tokens and passwords in text.
//
//	for _, f := range secret.Find(text) { ... } // what a guard may rely on: next to no mistakes
//	kept := secret.Hide(text)                   // what a Record keeps: rather too little than a secret
//
// Both search with one table, made from two files of rules in the format of gitleaks:
// packs/secrets.toml is precise, and internal/secret/records.toml is about what merely
// looks like a secret. [Rules] adds rules of a user's own.
//
// The table is searched in one pass over the text, and no expression is compiled for it:
// a program that answers a single event has no time for that. The time grows with the
// size of the text, whatever it says.
//
// It does not ask any service whether a key is valid, and it undoes no encoding: who
// writes a secret backwards gets past it.
package secret

import (
	"slices"
	"strings"
)

// Finding is a secret in a text.
type Finding struct {
	Rule  string // the id of the rule that found it
	Begin int    // of the secret, in bytes
	End   int
	Keep  int // so many bytes at its beginning say which kind it is, and nothing else

	rank int // of the rule: the lower wins where two find the same
}

// rule is a row of the table. It is static data: see table_test.go, which makes it.
type rule struct {
	id      string
	prog    string // see match
	entropy uint8  // of the secret, at least, in tenths of a bit per byte
	check   check
	back    [2]uint8 // the match begins so many bytes before the word, at least and at most
	loose   bool     // for Records only
}

// word is what a rule looks on at.
type word struct {
	text string // in lower case
	rule uint8
	next uint16 // word with the same place in heads; 0 = none
}

// place is where a word that begins with three bytes stands in heads. Letter case does
// not count.
func place(x uint32) uint32 { return x * 0x9E3779B1 >> 21 }

// Find returns the secrets in a text by the precise rules, in the order of the text and
// without overlaps.
func Find(text string) []Finding { return resolve(scan(text, false)) }

// Mask replaces the secrets that Find finds with ***, and keeps what says which kind
// each was: ghp_***.
func Mask(text string) string { return mask(text, Find(text)) }

// Hide replaces with *** what Mask does, and whatever else looks like a secret. It is
// for what is written down: where nobody reads a password, nobody misses one that was
// none. It keeps ordinary text as it is, digests and UUIDs included.
func Hide(text string) string { return mask(text, resolve(scan(text, true))) }

// Near reports whether Hide may find something in a text: it is cheaper, and may be
// wrong in saying so.
func Near(text string) bool {
	near := false
	words(text, true, func(int, *word) bool { near = true; return false })
	return near
}

// words calls yield for each word of the table in the text, until it says false; all
// means those of the rules for Records too.
func words(text string, all bool, yield func(at int, w *word) bool) {
	if len(text) < 3 {
		return
	}
	x := uint32(text[0]|0x20)<<8 | uint32(text[1]|0x20)<<16
	for i := 2; i < len(text); i++ {
		x = x>>8 | uint32(text[i]|0x20)<<16
		for n := heads[place(x)]; n != 0; {
			w := &wordTable[n]
			if at := i - 2; (all || int(w.rule) < precise) && hasFold(text[at:], w.text) && !yield(at, w) {
				return
			}
			n = w.next
		}
	}
}

// hasFold reports whether a text begins with a word in lower case, in any letter case.
func hasFold(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// scan finds what the rows of the table find, overlaps included.
func scan(text string, all bool) []Finding {
	var found []Finding
	var until [len(table)]int // no secret of a rule begins before it
	words(text, all, func(at int, w *word) bool {
		r := &table[w.rule]
		if at < until[w.rule] {
			return true
		}
		m := machine{text: text}
		least, most := int(r.back[0]), int(r.back[1])
		if most == toOption {
			most = option(text, at)
			least = most
		}
		for n := most; ; n-- {
			if n <= at && m.start(r.prog, at-n) {
				break
			}
			if n <= least {
				// All words up to where it failed are part of what does not fit. Without
				// this a text of nothing but words would take the square of its size.
				until[w.rule] = max(until[w.rule], m.far-len(w.text)+1)
				return true
			}
		}
		f := Finding{Rule: r.id, Begin: m.begin, End: m.end, rank: int(w.rule)}
		if f.Begin == at && f.Begin+len(w.text) < f.End {
			f.Keep = len(w.text)
		}
		if !r.holds(text, f, all) {
			// What is no secret as a whole has none in it; but the next word may end in it.
			until[w.rule] = max(at+1, m.end-len(w.text))
			return true
		}
		until[w.rule] = m.end
		found = append(found, f)
		return true
	})
	return found
}

// toOption as the most of back: the match begins at the dashes of the option that the word
// is part of.
const toOption = 0xff

// option returns how many bytes before a word an option begins.
func option(text string, at int) int {
	n := 0
	for n < 64 && n < at && (text[at-n-1] == '-' || lower(text[at-n-1]) >= 'a' && lower(text[at-n-1]) <= 'z') && (n > 0 || text[at-1] == '-') {
		n++
	}
	return n
}

// resolve sorts findings, and of two that overlap keeps the one whose rule says more.
func resolve(found []Finding) []Finding {
	if len(found) < 2 {
		return found
	}
	// By pointers, the code that sorts is one that is linked anyway.
	order := make([]*Finding, len(found))
	for i := range found {
		order[i] = &found[i]
	}
	slices.SortStableFunc(order, func(a, b *Finding) int { return a.Begin - b.Begin })
	kept := []Finding{*order[0]}
	for _, f := range order[1:] {
		switch last := &kept[len(kept)-1]; {
		case f.Begin >= last.End:
			kept = append(kept, *f)
		case f.rank < last.rank:
			*last = *f
		}
	}
	return kept
}

func mask(text string, found []Finding) string {
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for _, f := range found {
		b.WriteString(text[done : f.Begin+f.Keep])
		b.WriteString("***")
		done = f.End
	}
	b.WriteString(text[done:])
	return b.String()
}
