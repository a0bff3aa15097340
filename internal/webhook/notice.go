package webhook

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A notice is a message for people. Its texts are valid UTF-8 without control characters, except for
// line feeds in text and detail, and secrets in them are masked: many people read a channel. Each form
// escapes the texts in its own way, because a model or a web page can have written them.
type notice struct {
	title  string      // never empty
	text   string      // the reasons, or the text of the policy; can be empty
	detail string      // the commands, paths or URLs; can be empty
	facts  [][2]string // each with a name
	urgent bool        // the action did not happen
}

// noticeOf returns the message about an event with its Verdict.
func noticeOf(h *policyfile.HTTP, j *Delivery, ev *grapnel.Event, o *wire.Origin) (notice, error) {
	v, o := match.OrZero(ev.Verdict()), match.OrZero(o)
	n := notice{title: titleOf(ev, v), urgent: v.Decision >= grapnel.Ask || ev.Kind == grapnel.AgentFailed}
	title, err := sent(match.KeyTitle, h.Title, ev, o)
	if err != nil {
		return n, err
	}
	n.title = cmp.Or(oneLine(title), n.title)
	if h.Text != "" {
		n.text, err = sent(match.KeyText, h.Text, ev, o)
		return n, err
	}
	n.text, n.detail = clean(v.Reason()), clean(detailOf(ev))
	var rules []string
	for _, d := range o.Decided {
		rules = append(rules, d.Name)
	}
	who := o.Host
	if o.User != "" {
		who = o.User + " on " + o.Host
	}
	for _, fact := range [][2]string{
		{"Rule", strings.Join(rules, ", ")}, {"Machine", who}, {"Directory", ev.Session.CWD}, {"Time", cmp.Or(ev.Time, j.Created).UTC().Format(time.RFC3339)},
	} {
		if fact[1] = fit(oneLine(fact[1]), 200, nil); fact[1] != "" {
			n.facts = append(n.facts, fact)
		}
	}
	return n, nil
}

// sent returns the clean value of an expression of the policy; "" without an expression.
func sent(key, source string, ev *grapnel.Event, o *wire.Origin) (string, error) {
	if source == "" {
		return "", nil
	}
	value, err := match.Sent(key, source, ev, o)
	text, _ := value.(string)
	return clean(text), err
}

func titleOf(ev *grapnel.Event, v *grapnel.Verdict) string {
	what, where := string(ev.Kind), ""
	if ev.Tool != nil && ev.Tool.Name != "" {
		what = ev.Tool.Name
	}
	if ev.Agent.Name != "" {
		where = " in " + fit(oneLine(ev.Agent.Name), 40, nil)
	}
	prefix := map[grapnel.Decision]string{grapnel.Block: "Blocked: ", grapnel.Ask: "Asked: ", grapnel.Allow: "Allowed: "}[v.Decision]
	return prefix + fit(oneLine(what), 60, nil) + where
}

// detailOf returns the object of an action.
func detailOf(ev *grapnel.Event) string {
	tool := match.OrZero(ev.Tool)
	lines := append(append([]string{}, tool.Commands...), tool.URLs...)
	for _, p := range tool.Paths {
		lines = append(lines, p.Path)
	}
	switch {
	case len(lines) > 0:
	case ev.Notification != nil:
		return ev.Notification.Message
	case ev.Cause != "":
		return ev.Cause
	}
	return strings.Join(lines, "\n")
}

// lines returns the message as plain text of at most most bytes, without its title.
func (n *notice) lines(most int) string {
	var parts []string
	for _, part := range []string{n.text, n.detail} {
		if part != "" {
			parts = append(parts, fit(part, most/3, nil))
		}
	}
	var facts strings.Builder
	for _, fact := range n.facts {
		fmt.Fprintf(&facts, "%s: %s\n", fact[0], fact[1])
	}
	return strings.TrimSpace(fit(strings.Join(append(parts, facts.String()), "\n\n"), most, nil))
}

// maxClean limits the text that is cleaned, because no form shows more.
const maxClean = 64 << 10

// clean returns a text that is valid and has no control or format characters. Some of them would
// reverse the direction of text, and show a command as another one.
func clean(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxClean)], "\uFFFD")
	return strings.TrimSpace(secret.Hide(strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)))
}

// oneLine is clean without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }

const cutMark = "..."

// fit returns a text with escaped runes, at most most bytes long. A longer text is cut between two
// runes and ends in three dots. nil = runes are not escaped.
func fit(text string, most int, escape func(rune) string) string {
	var b strings.Builder
	end := 0 // of the text before cutMark
	for _, r := range text {
		part := string(r)
		if escape != nil {
			part = escape(r)
		}
		if b.Len()+len(part) > most {
			return b.String()[:end] + cutMark
		}
		b.WriteString(part)
		if b.Len() <= most-len(cutMark) {
			end = b.Len()
		}
	}
	return b.String()
}
