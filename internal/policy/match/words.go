package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A phrase is a compiled pattern of the key words: groups of words, of each of which a call must
// have one, in any order.
type phrase [][]string

// newPhrase compiles a pattern such as "delete|drop database|table". Blanks around the bars are
// ignored, so that a pattern can have several lines.
func newPhrase(source string) (p phrase) {
	apart := true // the next field begins a group
	for field := range strings.FieldsSeq(source) {
		if apart && field[0] != '|' || p == nil {
			p = append(p, nil)
		}
		last := &p[len(p)-1]
		*last = append(*last, strings.FieldsFunc(field, func(r rune) bool { return r == '|' })...)
		apart = !strings.HasSuffix(field, "|")
	}
	return p
}

// CheckPhrase returns an error for a pattern of the key words that never matches.
func CheckPhrase(source string) error {
	p := newPhrase(source)
	if p == nil {
		return errors.New("it has no word")
	}
	for _, group := range p {
		if len(group) == 0 {
			return errors.New("a bar joins no words")
		}
		for _, word := range group {
			if parts := seam.Words(word); len(parts) != 1 || parts[0] != word {
				return fmt.Errorf("%q is not one word in lower-case letters", word)
			}
		}
	}
	return nil
}

// SampleWords returns words that a pattern of the key words matches.
func SampleWords(source string) (words []string) {
	for _, group := range newPhrase(source) {
		words = append(words, group[0])
	}
	return words
}

func newPhrases(sources []string) (all []phrase) {
	for _, source := range sources {
		all = append(all, newPhrase(source))
	}
	return all
}

// in reports whether each group has one of the words.
func (p phrase) in(words []string) bool {
	return !slices.ContainsFunc(p, func(group []string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return names(group, word) })
	})
}

// fitsWords reports whether a call fits one of the phrases. Arguments never permit anything, because
// a model can add them to any call.
func (c *compiled) fitsWords(f *Facts) bool {
	words := f.callWords
	if c.reading.every() {
		words = f.nameWords
	}
	return slices.ContainsFunc(c.phrases, func(p phrase) bool { return p.in(words()) })
}

// names reports whether a group has a word, or the singular of it.
func names(group []string, word string) bool {
	if slices.Contains(group, word) {
		return true
	}
	one, plural := strings.CutSuffix(word, "s")
	if !plural {
		return false
	}
	two, _ := strings.CutSuffix(one, "e")
	three, y := strings.CutSuffix(two, "i")
	return slices.ContainsFunc(group, func(w string) bool { return w == one || w == two || y && w == three+"y" })
}

// nameWords returns the words in the name of a tool. The name of an MCP server is not part of it.
func (f *Facts) nameWords() []string {
	t := f.Event.Tool
	switch {
	case t == nil:
		return nil
	case t.MCP != nil:
		return seam.Words(t.MCP.Tool)
	}
	return seam.Words(t.Name)
}

// callWords returns the words in the name of a tool and in the arguments that describe its action.
func (f *Facts) callWords() []string {
	return f.keptWords.get(func() []string {
		if f.Event.Tool == nil {
			return nil
		}
		return append(f.nameWords(), argumentWords(f.Event.Tool.Input, maxNested)...)
	})
}

// maxNested is how deep an object of arguments may be in another one. Some servers have one tool
// for everything, with the arguments of the operation in a member.
const maxNested = 1

// selectors are the last words in the names of arguments with the action or the object of a tool.
var selectors = []string{"action", "command", "entity", "kind", "method", "mode", "object", "operation", "resource", "type", "verb"}

// maxSelector is the maximum length in bytes of the value of such an argument. A longer one is data.
const maxSelector = 64

// argumentWords returns the words of arguments that describe the action of a call: the last word in the name
// of a switch that is on, such as isDestroy, and the value of a selector, such as resourceType.
// Other values are data: a label may have any name.
func argumentWords(input json.RawMessage, nested int) (words []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(input, &members) != nil {
		return nil
	}
	for name, value := range members {
		of := seam.Words(name)
		if len(of) == 0 {
			continue
		}
		last := of[len(of)-1]
		switch first, _ := utf8.DecodeRune(value); first { // a null has no bytes
		case 't':
			words = append(words, last)
		case '{':
			if nested > 0 {
				words = append(words, argumentWords(value, nested-1)...)
			}
		case '"':
			text, _ := rawjson.Unquote(value)
			if len(text) <= maxSelector && !strings.ContainsAny(text, " \t\n") && names(selectors, last) {
				words = append(words, seam.Words(text)...)
			}
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}
