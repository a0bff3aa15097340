package replay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// MaxExcept is the maximum number of command lines in the exception of a hook.
const MaxExcept = 20

// The parts of an exception.
const (
	exceptStart = "tool.command not in ["
	exceptEnd   = "]"
)

// except returns a `when:` that is false for exactly these command lines. They are complete: a
// pattern, as in `except:`, would also be true for lines with additional options.
func except(lines []string) string {
	quoted := make([]string, len(lines))
	for i, line := range lines {
		quoted[i] = strconv.Quote(line)
	}
	return exceptStart + strings.Join(quoted, ", ") + exceptEnd
}

// excepted returns the command lines of a `when:` that except could have written. It reports false
// for any other.
func excepted(when string) ([]string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(when), exceptStart)
	rest, closed := strings.CutSuffix(rest, exceptEnd)
	if !ok || !closed {
		return nil, false
	}
	var lines []string
	for {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil || quoted[0] != '"' {
			return nil, false
		}
		line, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, false
		}
		lines = append(lines, line)
		if rest = strings.TrimLeft(rest[len(quoted):], " "); rest == "" {
			return lines, true
		}
		if rest, ok = strings.CutPrefix(rest, ","); !ok {
			return nil, false
		}
		rest = strings.TrimLeft(rest, " ")
	}
}

// scalar returns a text on one line as YAML. flow is for a mapping in braces.
func scalar(text string, flow bool) string {
	if !flow && !strings.Contains(text, ": ") && !strings.Contains(text, " #") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Except changes a hook of a policy file that asks or blocks, so that it does not stop exactly this
// command line. It adds a `when:`, or extends a `when:` that has only such exceptions. hook is a
// hook of the parsed content. The result differs in nothing else, and hunk is the change as a diff.
func Except(file string, content []byte, hook *policyfile.Hook, command string) (changed []byte, hunk string, err error) {
	lines, ok := excepted(hook.When)
	switch {
	case hook.Decide != "ask" && hook.Decide != "block":
		return nil, "", errors.New("it does not ask or block")
	case hook.When != "" && !ok:
		return nil, "", fmt.Errorf("it has another condition, `when: %s`", hook.When)
	case slices.Contains(lines, command):
		return nil, "", errors.New("it has this exception already")
	case len(lines) >= MaxExcept:
		return nil, "", fmt.Errorf("it has %d exceptions already: change its match instead", len(lines))
	}
	text := string(content)
	end := "\n"
	if strings.Contains(text, "\r\n") {
		end = "\r\n"
	}
	before := strings.Split(text, end)
	when := except(append(lines, command))
	after, err := withWhen(before, hook, when)
	if err == nil {
		text = strings.Join(after, end)
		err = onlyWhen(file, content, []byte(text), hook, when)
	}
	if err != nil {
		return nil, "", err
	}
	return []byte(text), unified(file, before, after), nil
}

// errLayout is the error for a hook that an edit of its lines could damage.
var errLayout = errors.New("its layout in the file is too unusual for an automatic change")

// withWhen returns the lines of a file in which a hook has another `when:`.
func withWhen(lines []string, hook *policyfile.Hook, when string) ([]string, error) {
	if hook.Line < 1 || hook.Line > len(lines) {
		return nil, errLayout
	}
	e := newEdit(&Hook{Spec: grapnel.Spec{Line: hook.Line}, Policy: hook}, slices.Clone(lines))
	if hook.When == "" {
		if !e.set("when", scalar(when, e.flow())) {
			return nil, errLayout
		}
		return e.lines, nil
	}
	bom := "\uFEFF"
	text, marked := strings.CutPrefix(strings.Join(lines, "\n"), bom)
	if !marked {
		bom = ""
	}
	if strings.Contains(text, "\r") {
		return nil, errLayout
	}
	src, err := yaml.ParseSource([]byte(text))
	if err != nil {
		return nil, err
	}
	for _, item := range src.Root.Get("hooks").Items {
		if n := item.Get("when"); n != nil && item.Line == hook.Line && item.Get("name").Text == hook.Name {
			at := src.Written(n)
			if at.End > len(text) || strings.Contains(text[at.Start:at.End], "\n") {
				return nil, errLayout
			}
			return strings.Split(bom+text[:at.Start]+scalar(when, true)+text[at.End:], "\n"), nil
		}
	}
	return nil, errLayout
}

// onlyWhen returns an error if two contents of a policy differ in more than the `when:` of a hook,
// or if it has another value than when.
func onlyWhen(file string, before, after []byte, hook *policyfile.Hook, when string) error {
	return onlyChange(file, before, after, func(p *policyfile.Policy) bool {
		found := 0
		for i := range p.Hooks {
			if p.Hooks[i].Name == hook.Name {
				found++
				p.Hooks[i].When = when
			}
		}
		return found == 1
	})
}

// onlyChange returns an error if the second content of a policy is not the first one with a change.
// change reports whether it is possible.
func onlyChange(file string, before, after []byte, change func(*policyfile.Policy) bool) error {
	old, errs := policy.Parse(file, before)
	if len(errs) > 0 {
		return errs[0]
	}
	changed, errs := policy.Parse(file, after)
	if len(errs) > 0 {
		return fmt.Errorf("the result is not a valid policy: %w", errs[0])
	}
	possible := change(old)
	was, errWas := withoutLines(old)
	is, errIs := withoutLines(changed)
	if !possible || errWas != nil || errIs != nil || was != is {
		return errLayout
	}
	return nil
}

// withoutLines returns a policy as JSON, without the numbers of lines.
func withoutLines(p *policyfile.Policy) (string, error) {
	data, err := rawjson.Marshal(p)
	return regexp.MustCompile(`"(line|col)":\d+,?`).ReplaceAllString(string(data), ""), err
}
