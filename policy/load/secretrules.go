package load

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/tree/toml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// maxRuleFile is the maximum size of a rule file in bytes, and maxRules is the maximum total number
// of rules. Each rule whose keyword occurs in a text costs one more regular expression search.
const (
	maxRuleFile = yaml.MaxSize
	maxRules    = 1000
)

// reader returns the content of a rule file.
type reader func(path string) ([]byte, error)

// ruleReader returns a reader for rule files on disk. If root is true, only root may be able to
// write the file.
func ruleReader(root bool) reader {
	return func(path string) ([]byte, error) {
		check := func(fs.FileInfo) error { return nil }
		if root {
			check = files.OnlyRoot
		}
		data, err := files.ReadChecked(path, maxRuleFile+1, check)
		if err == nil && len(data) > maxRuleFile {
			err = fmt.Errorf("is larger than %d MiB", maxRuleFile>>20)
		}
		return data, err
	}
}

// rulePath returns the path of a rule file that a policy file names.
func rulePath(policy, name string) string { return home.Absolute(name, filepath.Dir(policy)) }

// freshRules reports whether the stored rules match the current content of their files.
func freshRules(s *policyfile.Secrets, policy string, read reader) bool {
	if s == nil {
		return true
	}
	if len(s.Sums) != len(s.Files) {
		return false
	}
	for i, file := range s.Files {
		if data, err := read(rulePath(policy, file.Text)); err != nil || files.Digest(data) != s.Sums[i] {
			return false
		}
	}
	return true
}

// ReadRules reads the rule files that a policy file names and adds the rules to the policy. It
// returns all errors in these files.
func ReadRules(p *policyfile.Policy, file string) []*policyfile.Error {
	return readRules(p, file, ruleReader(false))
}

func readRules(p *policyfile.Policy, policy string, read reader) (errs []*policyfile.Error) {
	s := p.Secrets
	if s == nil {
		return nil
	}
	s.Sums, s.Rules, s.Lists, s.Off, s.Notes = nil, nil, nil, nil, nil
	for _, file := range s.Files {
		path := rulePath(policy, file.Text)
		data, err := read(path)
		if err != nil {
			errs = append(errs, &policyfile.Error{File: policy, Line: file.Line, Col: file.Col, Msg: fmt.Sprintf("cannot read the rules for secrets: %s %s", path, unreadable(err)), Hint: "write the file, or its path relative to the policy"})
			continue
		}
		s.Sums = append(s.Sums, files.Digest(data))
		r := ruleFile{path: path, into: s}
		root, wrong := toml.Parse(data)
		if wrong != nil {
			errs = append(errs, hookfiles.ErrorIn(path, wrong))
			continue
		}
		r.file(root)
		errs = append(errs, r.errs...)
	}
	if len(s.Rules) > maxRules {
		errs = append(errs, &policyfile.Error{File: policy, Line: s.Files[0].Line, Col: s.Files[0].Col, Msg: fmt.Sprintf("its files have %d rules for secrets, the limit is %d", len(s.Rules), maxRules)})
	}
	return errs
}

// A ruleFile is a rule file in the gitleaks format.
type ruleFile struct {
	path string
	into *policyfile.Secrets
	errs []*policyfile.Error
}

func (r *ruleFile) fail(n *tree.Node, format string, args ...any) {
	r.errs = append(r.errs, &policyfile.Error{File: r.path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...)})
}

func (r *ruleFile) note(n *tree.Node, format string, args ...any) {
	r.into.Notes = append(r.into.Notes, &policyfile.Error{File: r.path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...)})
}

// unknown adds a note for each unknown key, for example a key of a later gitleaks version.
func (r *ruleFile) unknown(n *tree.Node, what string, known ...string) {
	for _, name := range n.Names {
		if !slices.Contains(known, name) {
			r.note(n.Members[name], "%q of %s is ignored", name, what)
		}
	}
}

func (r *ruleFile) file(root *tree.Node) {
	r.unknown(root, "the file", "title", "description", "minVersion", "extend", "rules", "allowlist", "allowlists")
	if extend := root.Get("extend"); extend.Is(tree.Object) {
		r.unknown(extend, "extend", "useDefault", "disabledRules")
		if d := extend.Get("useDefault"); d.Is(tree.Bool) && !d.IsTrue() {
			r.note(d, "Grapnel's own rules still apply: switch them off with disable under secrets")
		}
		r.into.Off = append(r.into.Off, r.texts(extend, "disabledRules")...)
	}
	for _, n := range r.list(root, "rules") {
		r.rule(n)
	}
	for _, name := range []string{"allowlist", "allowlists"} {
		for _, n := range r.list(root, name) {
			if a := r.allow(n); a != nil {
				a.Rules = r.texts(n, "targetRules")
				r.into.Lists = append(r.into.Lists, a)
			}
		}
	}
}

func (r *ruleFile) rule(n *tree.Node) {
	rule := &secret.Rule{ID: r.text(n, "id"), Regex: r.regexp(n, "regex"), Path: r.regexp(n, "path")}
	if rule.ID == "" {
		r.fail(n, "a rule has no id")
		return
	}
	what := fmt.Sprintf("the rule %q", rule.ID)
	r.unknown(n, what, "id", "description", "regex", "path", "secretGroup", "entropy", "keywords", "tags", "allowlist", "allowlists", "skipReport")
	if skip := n.Get("skipReport"); skip.Is(tree.Bool) && skip.IsTrue() {
		r.note(n, "%s only supports other rules and finds nothing itself", what)
		return
	}
	for _, word := range r.texts(n, "keywords") {
		rule.Keywords = append(rule.Keywords, strings.ToLower(word))
	}
	if group := n.Get("secretGroup"); group != nil {
		f, ok := group.Number()
		re, err := regexp.Compile(rule.Regex)
		if !ok || f != float64(int(f)) || f < 0 || err == nil && int(f) > re.NumSubexp() {
			r.fail(group, "%s: secretGroup is not a group of its regex", what)
		}
		rule.Group = int(f)
	}
	if entropy := n.Get("entropy"); entropy != nil {
		f, ok := entropy.Number()
		if !ok || f < 0 || f > 8 {
			r.fail(entropy, "%s: entropy is a number from 0 to 8", what)
		}
		rule.Entropy = f
	}
	for _, name := range []string{"allowlist", "allowlists"} {
		for _, item := range r.list(n, name) {
			if a := r.allow(item); a != nil {
				rule.Allow = append(rule.Allow, a)
			}
		}
	}
	switch {
	case slices.ContainsFunc(r.into.Rules, func(other *secret.Rule) bool { return other.ID == rule.ID }):
		r.fail(n, "%s is listed twice", what)
	case rule.Regex == "" && rule.Path == "" && slices.Contains(secret.IDs(), rule.ID):
		for _, a := range rule.Allow { // the rule only adds exceptions to a built-in rule
			a.Rules = []string{rule.ID}
			r.into.Lists = append(r.into.Lists, a)
		}
	case rule.Regex == "" && rule.Path == "" && len(r.errs) == 0:
		r.fail(n, "%s has neither a regex nor a path", what)
	default:
		if rule.Regex != "" && len(rule.Keywords) == 0 {
			r.note(n, "%s has no keywords, so its regex is tried on every text", what)
		}
		r.into.Rules = append(r.into.Rules, rule)
	}
}

// allow parses an allowlist. It returns nil if the allowlist can only match commits.
func (r *ruleFile) allow(n *tree.Node) *secret.Allow {
	r.unknown(n, "an allowlist", "description", "condition", "commits", "paths", "regexTarget", "regexes", "stopwords", "targetRules")
	a := &secret.Allow{Stopwords: r.texts(n, "stopwords"), Target: r.text(n, "regexTarget")}
	for i, source := range r.texts(n, "regexes") {
		a.Regexes = append(a.Regexes, r.checked(n.Get("regexes").Items[i], source))
	}
	for i, source := range r.texts(n, "paths") {
		a.Paths = append(a.Paths, r.checked(n.Get("paths").Items[i], source))
	}
	switch strings.ToUpper(r.text(n, "condition")) {
	case "", "OR", "||":
	case "AND", "&&":
		a.All = true
	default:
		r.fail(n.Get("condition"), "the condition of an allowlist is AND or OR")
	}
	switch a.Target {
	case "secret":
		a.Target = ""
	case "", "match", "line":
	default:
		r.fail(n.Get("regexTarget"), "the regexTarget of an allowlist is secret, match or line")
	}
	if commits := n.Get("commits"); commits != nil {
		r.note(commits, "commits of an allowlist are ignored: events are not part of commits")
		if a.All {
			return nil // an event has no commit, so the allowlist never matches
		}
	}
	if len(a.Regexes)+len(a.Stopwords)+len(a.Paths) == 0 {
		return nil
	}
	return a
}

// list returns the tables with a name: a single table or an array of tables.
func (r *ruleFile) list(n *tree.Node, name string) []*tree.Node {
	at := n.Get(name)
	switch {
	case at == nil:
		return nil
	case at.Is(tree.Object):
		return []*tree.Node{at}
	case at.Is(tree.List) && !slices.ContainsFunc(at.Items, func(item *tree.Node) bool { return !item.Is(tree.Object) }):
		return at.Items
	}
	r.fail(at, "%s are tables, [[%s]]", name, name)
	return nil
}

func (r *ruleFile) text(n *tree.Node, name string) string {
	at := n.Get(name)
	if at != nil && !at.Is(tree.Text) {
		r.fail(at, "%s is a text", name)
		return ""
	}
	if at == nil {
		return ""
	}
	return at.Text
}

func (r *ruleFile) texts(n *tree.Node, name string) []string {
	at := n.Get(name)
	if at == nil {
		return nil
	}
	var texts []string
	for _, item := range at.Items {
		if !item.Is(tree.Text) {
			r.fail(item, "%s are texts", name)
			return nil
		}
		texts = append(texts, item.Text)
	}
	if !at.Is(tree.List) {
		r.fail(at, "%s is a list of texts", name)
	}
	return texts
}

func (r *ruleFile) regexp(n *tree.Node, name string) string {
	return r.checked(n.Get(name), r.text(n, name))
}

func (r *ruleFile) checked(n *tree.Node, source string) string {
	if source == "" {
		return ""
	}
	re, err := regexp.Compile(source)
	switch {
	case err != nil:
		r.fail(n, "%v", err)
	case re.MatchString(""):
		r.fail(n, "%q matches the empty text", source)
	default:
		return source
	}
	return ""
}

// pinRules pins the rule files of a project's policy.
func (x *Examined) pinRules() *policyfile.Error {
	s := x.Policy.Secrets
	if s == nil {
		return nil
	}
	for _, file := range s.Files {
		path := rulePath(x.File, file.Text)
		fail := func(format string, args ...any) *policyfile.Error {
			return &policyfile.Error{File: x.File, Line: file.Line, Col: file.Col, Msg: fmt.Sprintf(format, args...)}
		}
		if !below(x.Root, path) {
			return fail("the rules for secrets in %s are not in the project: a project's policy may only use files of the project", path)
		}
		if err := x.pinFile(rulesPin, file.Text, path); err != nil {
			return fail("%v", err)
		}
	}
	if errs := readRules(x.Policy, x.File, x.pinnedContent); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// rulesPin is the entry for secret rules in Pin.Hooks.
const rulesPin = "secrets:rules"

// pinnedContent returns the pinned content of a file.
func (x *Examined) pinnedContent(path string) ([]byte, error) {
	for _, pin := range x.Pins {
		if pin.Path == path && pin.SHA256 != "" {
			return x.contents[pin.SHA256], nil
		}
	}
	return nil, fs.ErrNotExist
}

// rules returns a reader for the trusted content of rule files, regardless of their current
// content.
func (s Trusts) rules(trust *Trust) reader {
	return func(path string) ([]byte, error) {
		for _, pin := range trust.Pins {
			if pin.Path == path && pin.SHA256 != "" {
				return s.Content(pin.SHA256)
			}
		}
		return nil, errors.New("did not exist when the policy was trusted")
	}
}
