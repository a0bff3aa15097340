package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rules are the rules of one policy: the table, without some of its rules and with additional
// ones. The zero value and nil are the table alone. Rules are safe for concurrent use.
type Rules struct {
	Off   []string // IDs of rules in the table that are disabled
	Allow []*Allow // for all rules
	More  []*Rule
}

// A Rule is a user's rule. Its fields have the same meaning as in gitleaks. A Rule with the ID of
// a rule in the table replaces that rule.
type Rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex,omitempty"` // RE2; empty = only the path is matched
	Group    int      `json:"group,omitempty"` // the group with the secret; 0 = the first group that is not empty, or the whole match
	Entropy  float64  `json:"entropy,omitempty"`
	Keywords []string `json:"keywords,omitempty"` // in lower case; the text must contain one of them; none = no condition
	Path     string   `json:"path,omitempty"`     // RE2 for the files that the rule applies to
	Allow    []*Allow `json:"allow,omitempty"`

	regex, path lazyRegexp
}

// An Allow is a condition under which a finding is not a secret.
type Allow struct {
	Rules     []string `json:"rules,omitempty"`   // IDs of the rules that it applies to; none = all
	Regexes   []string `json:"regexes,omitempty"` // RE2
	Target    string   `json:"target,omitempty"`  // the text that Regexes match: the secret when empty, match, line
	Stopwords []string `json:"stopwords,omitempty"`
	Paths     []string `json:"paths,omitempty"` // RE2
	All       bool     `json:"all,omitempty"`   // all kinds of conditions must hold, not just one

	once    sync.Once
	regexes []*regexp.Regexp
	paths   []*regexp.Regexp
}

// lazyRegexp is an expression that is known to be valid and is compiled at first use.
type lazyRegexp struct {
	once sync.Once
	re   *regexp.Regexp
}

func (l *lazyRegexp) get(source string) *regexp.Regexp {
	l.once.Do(func() { l.re = regexp.MustCompile(source) })
	return l.re
}

// IDs returns the IDs of the precise rules, in the order of the table.
func IDs() []string {
	ids := make([]string, precise)
	for i := range ids {
		ids[i] = table[i].id
	}
	return ids
}

// Find returns the secrets in a text, in the order of the text and without overlaps. paths are
// the files that the text is related to, if known.
func (rs *Rules) Find(text string, paths []string) []Finding {
	found := scan(text, false)
	if rs == nil {
		return resolve(found)
	}
	kept := found[:0]
	for _, f := range found {
		if !slices.Contains(rs.Off, f.Rule) && !rs.replaced(f.Rule) && !allowed(rs.Allow, text, f, f.Begin, f.End, paths) {
			kept = append(kept, f)
		}
	}
	var low string
	for _, r := range rs.More {
		if r.Regex == "" || r.Path != "" && !r.about(paths) {
			continue
		}
		if len(r.Keywords) > 0 {
			if low == "" {
				low = asciiLower(text)
			}
			if !slices.ContainsFunc(r.Keywords, func(word string) bool { return strings.Contains(low, word) }) {
				continue
			}
		}
		kept = append(kept, r.find(rs, text, paths)...)
	}
	return resolve(kept)
}

// Paths returns the IDs of the rules that match one of the files by its path alone.
func (rs *Rules) Paths(paths []string) []string {
	if rs == nil {
		return nil
	}
	var ids []string
	for _, r := range rs.More {
		if r.Regex == "" && r.Path != "" && r.about(paths) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Mask replaces secrets with ***, for the rules for which want returns true.
func (rs *Rules) Mask(text string, paths []string, want func(id string) bool) string {
	found := rs.Find(text, paths)
	kept := found[:0]
	for _, f := range found {
		if want(f.Rule) {
			kept = append(kept, f)
		}
	}
	return mask(text, kept)
}

// replaced reports whether a user's rule replaces the rule with this ID.
func (rs *Rules) replaced(id string) bool {
	return slices.ContainsFunc(rs.More, func(r *Rule) bool { return r.ID == id })
}

func (r *Rule) about(paths []string) bool {
	re := r.path.get(r.Path)
	return slices.ContainsFunc(paths, re.MatchString)
}

func (r *Rule) find(rs *Rules, text string, paths []string) []Finding {
	var found []Finding
	for _, m := range r.regex.get(r.Regex).FindAllStringSubmatchIndex(text, -1) {
		f := Finding{Rule: r.ID, Begin: m[0], End: m[1], rank: -1}
		if group := 2 * r.Group; group > 0 && group+1 < len(m) {
			f.Begin, f.End = m[group], m[group+1]
		} else {
			for i := 2; i+1 < len(m); i += 2 {
				if m[i] >= 0 && m[i] < m[i+1] {
					f.Begin, f.End = m[i], m[i+1]
					break
				}
			}
		}
		if f.Begin < 0 || f.Begin >= f.End {
			continue
		}
		v := text[f.Begin:f.End]
		if r.Entropy > 0 && entropy(v[:min(len(v), maxChecked)]) <= r.Entropy || strings.HasPrefix(v, "***") {
			continue
		}
		if allowed(r.Allow, text, f, m[0], m[1], paths) || allowed(rs.Allow, text, f, m[0], m[1], paths) {
			continue
		}
		// A keyword at the beginning of the secret shows its kind, so Mask keeps it.
		for _, word := range r.Keywords {
			if len(word) >= 3 && len(word)*2 <= len(v) && hasFold(v, word) {
				f.Keep = max(f.Keep, len(word))
			}
		}
		found = append(found, f)
	}
	return found
}

// allowed reports whether one of the conditions allows a finding. The match is text[begin:end].
func allowed(list []*Allow, text string, f Finding, begin, end int, paths []string) bool {
	return slices.ContainsFunc(list, func(a *Allow) bool {
		return (len(a.Rules) == 0 || slices.Contains(a.Rules, f.Rule)) && a.holds(text, f, begin, end, paths)
	})
}

func (a *Allow) holds(text string, f Finding, begin, end int, paths []string) bool {
	a.once.Do(func() {
		for _, source := range a.Regexes {
			a.regexes = append(a.regexes, regexp.MustCompile(source))
		}
		for _, source := range a.Paths {
			a.paths = append(a.paths, regexp.MustCompile(source))
		}
	})
	value := text[f.Begin:f.End]
	look := value
	switch a.Target {
	case "match":
		look = text[begin:end]
	case "line":
		from := strings.LastIndexByte(text[:begin], '\n') + 1
		to := strings.IndexByte(text[end:], '\n')
		if to < 0 {
			to = len(text) - end
		}
		look = text[from : end+to]
	}
	some := false
	for _, test := range []struct {
		there bool
		holds func() bool
	}{
		{len(a.Regexes) > 0, func() bool {
			return slices.ContainsFunc(a.regexes, func(re *regexp.Regexp) bool { return re.MatchString(look) })
		}},
		{len(a.Stopwords) > 0, func() bool {
			low := strings.ToLower(value)
			return slices.ContainsFunc(a.Stopwords, func(word string) bool { return strings.Contains(low, strings.ToLower(word)) })
		}},
		{len(a.Paths) > 0, func() bool {
			// If there are several paths, the file with the secret is not known, so all of them
			// must be allowed.
			return len(paths) > 0 && !slices.ContainsFunc(paths, func(path string) bool {
				return !slices.ContainsFunc(a.paths, func(re *regexp.Regexp) bool { return re.MatchString(path) })
			})
		}},
	} {
		if !test.there {
			continue
		}
		holds := test.holds()
		if holds && !a.All {
			return true
		}
		if !holds && a.All {
			return false
		}
		some = some || holds
	}
	return some
}
