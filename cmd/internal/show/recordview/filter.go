package recordview

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Filter selects Items. All its words must occur in the Item. Several values of one key:value are
// alternatives. A leading - excludes matches. The zero Filter selects all Items.
type Filter struct {
	words []word
	keys  []keyed
}

type word struct {
	text string // in lower case
	not  bool
}

type keyed struct {
	key    string
	values []string // in lower case
	not    bool
}

// KeyNames are the keys of a Filter, in the order in which error messages list them.
var KeyNames = []string{"agent", "session", "dir", "event", "tool", "hook", "decision", "is"}

// IsNames are the values of is:.
var IsNames = []string{"slow", "failed", "open", "unsupported", "changed", "would"}

// DecisionNames are the values of decision:.
var DecisionNames = []string{"none", "allow", "ask", "block", "halt", "change", "late"}

// ParseFilter parses a Filter as users write it:
func ParseFilter(text string) (Filter, error) {
	var f Filter
	var errs []error
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		not := false
		if rest[0] == '-' && len(rest) > 1 && rest[1] != ' ' && rest[1] != '-' {
			rest, not = rest[1:], true
		}
		end := strings.IndexAny(rest, " \"")
		if end < 0 {
			end = len(rest)
		}
		key, value, isKey := strings.Cut(rest[:end], ":")
		isKey = isKey && key != "" && !strings.HasPrefix(value, "//") // otherwise it is a URL
		if isKey {
			rest = rest[len(key)+1:]
		}
		value, rest = term(rest)
		value = strings.ToLower(value)
		switch {
		case !isKey && value != "":
			f.words = append(f.words, word{value, not})
		case !isKey:
		case !slices.Contains(KeyNames, key):
			errs = append(errs, fmt.Errorf("unknown key %s (want %s); to search for the text, write \"%s:%s\"", key, strings.Join(KeyNames, ", "), key, value))
		case value == "": // the user is still typing it
		case key == "is" && !slices.Contains(IsNames, value):
			errs = append(errs, fmt.Errorf("unknown value is:%s (want %s)", value, strings.Join(IsNames, ", ")))
		case key == "decision" && !begins(DecisionNames, value):
			errs = append(errs, fmt.Errorf("unknown value decision:%s (want %s)", value, strings.Join(DecisionNames, ", ")))
		default:
			at := slices.IndexFunc(f.keys, func(k keyed) bool { return k.key == key && k.not == not })
			if at < 0 {
				at = len(f.keys)
				f.keys = append(f.keys, keyed{key: key, not: not})
			}
			f.keys[at].values = append(f.keys[at].values, value)
		}
	}
	if len(errs) > 0 {
		return Filter{}, errors.Join(errs...)
	}
	return f, nil
}

// term reads a word, or several words in quotes.
func term(text string) (value, rest string) {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		value, rest, _ = strings.Cut(quoted, `"`)
		return value, rest
	}
	end := strings.IndexAny(text, " \"")
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// begins reports whether any name of a list begins with prefix.
func begins(list []string, prefix string) bool {
	return slices.ContainsFunc(list, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// Empty reports whether the Filter selects all Items.
func (f Filter) Empty() bool { return len(f.words)+len(f.keys) == 0 }

// Wants reports whether the Filter selects an Item. slow is the duration in milliseconds from which
// a hook is slow.
func (f Filter) Wants(it *Item, slow float64) bool {
	for _, w := range f.words {
		if strings.Contains(it.text, w.text) == w.not {
			return false
		}
	}
	for _, k := range f.keys {
		if slices.ContainsFunc(k.values, func(value string) bool { return it.has(k.key, value, slow) }) == k.not {
			return false
		}
	}
	return true
}

// has reports whether a key of an Item has a value.
func (it *Item) has(key, value string, slow float64) bool {
	in := func(text string) bool { return strings.Contains(strings.ToLower(text), value) }
	switch key {
	case "agent":
		return in(it.Agent)
	case "session":
		return strings.HasPrefix(strings.ToLower(it.Session), value)
	case "dir":
		return in(it.Dir)
	case "event":
		return in(string(it.Event))
	case "tool":
		return in(it.Tool) || it.class == value
	case "decision":
		return strings.HasPrefix(Word(&it.Entry), value) || strings.HasPrefix(it.Decision.String(), value)
	case "hook":
		for i := range it.Hooks {
			if in(it.Hooks[i].Name) {
				return true
			}
		}
		return false
	}
	failed, open := it.Failures()
	switch value {
	case "slow":
		return it.Slow(slow)
	case "failed":
		return failed > 0 || it.Error != ""
	case "open":
		return open > 0
	case "unsupported":
		return len(it.Unsupported) > 0
	case "changed":
		return len(it.Changed) > 0
	}
	return it.Would > 0
}
