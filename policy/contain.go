package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Words for paths in a `contain:` action.
const (
	wordProject = "project" // means {root}
	wordTemp    = "tmp"     // the system's temporary directories; "grapnel-hook contain" resolves it
)

// contain parses a `contain:` action: a reason, true, or a mapping.
func (p *fileParser) contain(h *policyfile.Hook, n *yaml.Node) {
	h.Contain = &policyfile.Sandbox{Read: []string{policyfile.ProjectRoot}}
	switch {
	case n.Kind == yaml.String:
		h.Reason = strings.TrimSpace(n.Text)
	case n.Kind == yaml.Map:
		p.mapping(n, "contain", []key{
			{"read", func(n *yaml.Node) { h.Contain.Read = p.containPaths(n) }},
			{"write", func(n *yaml.Node) { h.Contain.Write = p.containPaths(n) }},
			{"net", func(n *yaml.Node) { p.sandboxNet(n, h.Contain) }},
			{"reason", func(n *yaml.Node) { h.Reason = strings.TrimSpace(p.text(n)) }},
		})
	case n.Kind != yaml.Bool || n.Text != "true":
		p.fail(n, "", "contain must be true, the reason, or a mapping with read, write, net and reason")
	}
}

// containPaths parses the paths of a containment. Unlike the paths of a hook's program, they are
// not relative to the policy file, which is in another directory than the line.
func (p *fileParser) containPaths(n *yaml.Node) []string {
	var names []string
	for _, item := range itemsOf(n) {
		name := p.sandboxPath(item)
		switch {
		case name == wordProject:
			name = policyfile.ProjectRoot
		case name != wordTemp && name != "" && !strings.Contains("/~{", name[:1]):
			p.fail(item, "write project, tmp, {root}/"+name+" or an absolute path", "%q is not an absolute path", name)
		}
		names = append(names, name)
	}
	return names
}

// contain is the hook of a `contain:` action. It changes a shell line so that it runs in a
// sandbox, and asks if that is not possible.
type contain struct {
	box             policyfile.Sandbox
	name            string
	reason, message string
	program         func(box *policyfile.Sandbox, root string) (string, error) // see Request.Contain
}

func (b *Builder) buildContain(h *policyfile.Hook, spec *grapnel.Spec) error {
	spec.Phase = grapnel.PhaseRewrite
	spec.Hook = &contain{*h.Contain, h.Name, h.Reason, h.Message, b.Contain}
	return nil
}

// Handle returns the changed lines of a call. A line that already runs in the same sandbox stays as
// it is. A line in another sandbox gets a second one around it, and then both restrict it.
func (c *contain) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	before, err := c.wrapper(ev)
	if err != nil {
		return c.ask(err), nil
	}
	contained := 0
	out, err := changeTexts(ev, []grapnel.Field{grapnel.FieldCommand}, c.message, "contain", func(line string) string {
		if contained++; isContained(line, before) {
			return line
		}
		return before + c.after() + " -- " + shell.Quote(line)
	})
	if err == nil && contained == 0 {
		err = errors.New("only shell lines can run in it")
	}
	if err != nil {
		return c.ask(err), nil
	}
	if len(out.Set) > 0 && (ev.Can() == nil || ev.Can().Context) {
		out.Context = []string{c.note()}
	}
	return out, nil
}

// note returns a text for the model. A line such as "curl URL | sh" succeeds without a network, so
// the message of "grapnel-hook contain" about a failed line is not enough.
func (c *contain) note() string {
	return strings.TrimSpace(fmt.Sprintf("The hook %q runs this command in a %s. The command can also write to its TMPDIR. %s", c.name, c.box.Describe(), c.reason))
}

// ask returns the outcome for a call that cannot be contained.
func (c *contain) ask(why error) grapnel.Outcome {
	return grapnel.Outcome{
		Decision: grapnel.Ask, Message: c.message,
		Reason: strings.TrimSpace(c.reason + fmt.Sprintf("\nThis call must run in a sandbox, which is not possible here: %v.", why)),
	}
}

// wrapper returns the command that contains a line, up to the name of the hook.
func (c *contain) wrapper(ev *grapnel.Event) (string, error) {
	switch can := ev.Can(); {
	case ev.Tool == nil || ev.Tool.Class != grapnel.ClassShell || !match.POSIXShell(ev.Tool):
		return "", errors.New("only lines of a POSIX shell can run in it")
	case can != nil && (!slices.Contains(can.Change, grapnel.FieldInput) || can.Beside != grapnel.None):
		return "", errors.New("the agent does not let a hook change its commands")
	case c.program == nil:
		return "", errors.New("this program cannot start one")
	}
	root := ev.Session.Root
	if root == "" {
		root = ev.Session.CWD
	}
	program, err := c.program(&c.box, root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(shell.Quote(program) + " contain")
	for _, name := range c.box.Read {
		b.WriteString(" --read " + shell.Quote(name))
	}
	for _, name := range c.box.Write {
		b.WriteString(" --write " + shell.Quote(name))
	}
	return b.String() + " --net " + c.net() + " --root " + shell.Quote(root), nil
}

func (c *contain) net() string {
	switch {
	case c.box.Net:
		return "any"
	case len(c.box.Ports) == 0:
		return "none"
	}
	ports := make([]string, len(c.box.Ports))
	for i, port := range c.box.Ports {
		ports[i] = strconv.Itoa(int(port))
	}
	return strings.Join(ports, ",")
}

// after returns the part of the command that does not change the sandbox.
func (c *contain) after() string {
	text := " --name " + shell.Quote(c.name)
	if c.reason != "" {
		text += " --reason " + shell.Quote(c.reason)
	}
	return text
}

// isContained reports whether a line is one command that begins with the wrapper, and nothing runs
// outside of its sandbox.
func isContained(line, wrapper string) bool {
	rest, ok := strings.CutPrefix(line, wrapper)
	for _, flag := range []string{" --name ", " --reason "} {
		if after, has := strings.CutPrefix(rest, flag); has {
			rest, has = pastQuoted(after)
			ok = ok && has
		}
	}
	rest, last := strings.CutPrefix(rest, " -- ")
	rest, quoted := pastQuoted(rest)
	return ok && last && quoted && rest == ""
}

// pastQuoted returns the text after a word that shell.Quote has written.
func pastQuoted(text string) (rest string, ok bool) {
	for {
		if text, ok = strings.CutPrefix(text, "'"); !ok {
			return "", false
		}
		if _, text, ok = strings.Cut(text, "'"); !ok {
			return "", false
		}
		if !strings.HasPrefix(text, `\'`) {
			return text, true
		}
		text = text[len(`\'`):]
	}
}
