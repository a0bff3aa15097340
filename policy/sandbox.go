package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func (p *fileParser) sandbox(n *yaml.Node) *policyfile.Sandbox {
	s := &policyfile.Sandbox{Read: []string{policyfile.ProjectRoot}}
	if n.Kind != yaml.Map {
		if !p.boolean(n) {
			s = &policyfile.Sandbox{Off: true}
		}
		return s
	}
	required := true
	p.mapping(n, "sandbox", []key{
		{"read", func(n *yaml.Node) { s.Read = p.sandboxPaths(n) }},
		{"write", func(n *yaml.Node) { s.Write = p.sandboxPaths(n) }},
		{"net", func(n *yaml.Node) { p.sandboxNet(n, s) }},
		{"required", func(n *yaml.Node) { required = p.boolean(n) }},
	})
	s.Optional = !required
	return s
}

func (p *fileParser) sandboxPaths(n *yaml.Node) (names []string) {
	for _, item := range itemsOf(n) {
		names = append(names, p.sandboxPath(item))
	}
	return names
}

func (p *fileParser) sandboxPath(n *yaml.Node) string {
	name := p.text(n)
	word, _, _ := strings.Cut(name, "/")
	switch {
	case strings.ContainsAny(name, "*?[") || strings.ContainsRune(name, 0):
		p.fail(n, "name the directory", "%q is a pattern: a sandbox needs paths", name)
	case strings.HasPrefix(name, "~") && word != "~":
		p.fail(n, "write the whole path", "%q: only ~ is replaced by a home directory", name)
	case strings.ContainsAny(word, "{}") && word != policyfile.ProjectRoot && word != "{cwd}":
		p.fail(n, wording.Nearest(word, []string{policyfile.ProjectRoot, "{cwd}"}), "%q: only {root} and {cwd} are replaced, at the beginning", name)
	case strings.HasPrefix(word, "{") && slices.Contains(strings.Split(name, "/"), ".."):
		p.fail(n, "", "%q: a path that begins with %s must stay below it", name, word)
	}
	return name
}

// hintNet is for users who expect that a sandbox knows hosts.
const hintNet = "write `any`, `none`, or a list of ports as [443]: the kernel can restrict ports, but not hosts"

func (p *fileParser) sandboxNet(n *yaml.Node, s *policyfile.Sandbox) {
	if n.Kind != yaml.List {
		if s.Net = n.Text == "any"; !s.Net && n.Text != "none" {
			p.fail(n, hintNet, "want one of none, any, or a list of ports, not %q", n.Text)
		}
		return
	}
	for _, item := range n.Items {
		port, err := strconv.ParseUint(item.Text, 10, 16)
		if err != nil || port == 0 || item.Kind != yaml.Number {
			p.fail(item, hintNet, "%q is not a port", item.Text)
			continue
		}
		s.Ports = append(s.Ports, uint16(port))
	}
}

// sandboxed sets the sandbox of a hook's program: its own, or else the file's default.
func (p *fileParser) sandboxed(h *policyfile.Hook, n *yaml.Node, common *policyfile.Sandbox) {
	cmd := h.Program()
	if h.Builtin != nil {
		cmd = h.Run
	}
	switch {
	case n == nil && cmd == nil:
		return
	case n == nil:
		cmd.Sandbox = common
	case cmd == nil:
		p.fail(n, "", "hook %q: `sandbox` needs `run`, `worker` or another program", h.Name)
		return
	default:
		cmd.Sandbox = p.sandbox(n)
	}
	if cmd.Sandbox != nil && cmd.Worker {
		cmd.Sandbox = ofWorker(cmd.Sandbox)
	}
}

// ofWorker returns the sandbox of a worker. A worker has no event, so {root} and {cwd} are the
// directory of the policy, in which it runs.
func ofWorker(s *policyfile.Sandbox) *policyfile.Sandbox {
	w := *s
	for _, list := range []*[]string{&w.Read, &w.Write} {
		*list = slices.Clone(*list)
		for i, name := range *list {
			for _, word := range []string{policyfile.ProjectRoot, "{cwd}"} {
				if rest, ok := strings.CutPrefix(name, word); ok {
					(*list)[i] = "." + rest
				}
			}
		}
	}
	return &w
}
