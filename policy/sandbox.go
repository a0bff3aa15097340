package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/yaml"
)

// Sandbox is `sandbox:`: what a program may reach beside what is installed on the system
// and a temporary directory of its own. Paths are as a policy writes them: relative to
// the policy file, or with {root} and {cwd} for where the event happens.
type Sandbox struct {
	Off      bool     `json:"off,omitempty"` // `sandbox: false`, where the file has a default
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"` // and read
	Net      bool     `json:"net,omitempty"`   // anywhere
	Ports    []uint16 `json:"ports,omitempty"` // of TCP
	Optional bool     `json:"optional,omitempty"`
}

// theProject is what a sandbox reads that does not say.
const theProject = "{root}"

// Describe says what a program is held to, for people.
func (s *Sandbox) Describe() string {
	if s == nil || s.Off {
		return "no sandbox"
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "nothing"
		}
		named := make([]string, len(names))
		for i, name := range names {
			switch named[i] = name; name {
			case theProject:
				named[i] = "the project"
			case ".":
				named[i] = "the directory of the policy"
			}
		}
		return strings.Join(named, ", ")
	}
	net := "no network"
	if s.Net {
		net = "any network"
	}
	for i, port := range s.Ports {
		if net += ", "; i == 0 {
			net = "TCP to port "
		}
		net += strconv.Itoa(int(port))
	}
	optional := ""
	if s.Optional {
		optional = "; without it where there is none"
	}
	return fmt.Sprintf("sandbox: reads %s, writes %s, %s%s", list(s.Read), list(s.Write), net, optional)
}

func (p *fileParser) sandbox(n *yaml.Node) *Sandbox {
	s := &Sandbox{Read: []string{theProject}}
	if n.Kind != yaml.Map {
		if !p.boolean(n) {
			s = &Sandbox{Off: true}
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
		p.fail(n, "name the directory", "%q is no path: a sandbox knows no patterns", name)
	case strings.HasPrefix(name, "~") && word != "~":
		p.fail(n, "write the whole path", "%q: only ~ alone stands for a home directory", name)
	case strings.ContainsAny(word, "{}") && word != theProject && word != "{cwd}":
		p.fail(n, didYouMean(word, []string{theProject, "{cwd}"}), "%q: only {root} and {cwd} stand for something, at the beginning", name)
	case strings.HasPrefix(word, "{") && slices.Contains(strings.Split(name, "/"), ".."):
		p.fail(n, "", "%q: what begins with %s stays there", name, word)
	}
	return name
}

func (p *fileParser) sandboxNet(n *yaml.Node, s *Sandbox) {
	if n.Kind != yaml.List {
		s.Net = p.oneOf(n, "none", "any") == "any"
		return
	}
	for _, item := range n.Items {
		port, err := strconv.ParseUint(item.Text, 10, 16)
		if err != nil || port == 0 || item.Kind != yaml.Number {
			p.fail(item, "write `any`, `none`, or a list of ports as [443]", "%q is no port", item.Text)
			continue
		}
		s.Ports = append(s.Ports, uint16(port))
	}
}

// sandboxed gives a hook the sandbox that it names, or that its file has for all.
func (p *fileParser) sandboxed(h *Hook, n *yaml.Node, common *Sandbox) {
	cmd := h.program()
	if h.Builtin != nil {
		cmd = h.Run
	}
	switch {
	case n == nil && cmd == nil:
		return
	case n == nil:
		cmd.Sandbox = common
	case cmd == nil:
		p.fail(n, "", "hook %q: `sandbox` goes with `run`, `worker` and other programs", h.Name)
		return
	default:
		cmd.Sandbox = p.sandbox(n)
	}
	if cmd.Sandbox != nil && cmd.Worker {
		cmd.Sandbox = cmd.Sandbox.ofWorker()
	}
}

// ofWorker is the sandbox of a program that is kept running: what an event would stand for
// is the directory that it runs in, that of the policy.
func (s *Sandbox) ofWorker() *Sandbox {
	w := *s
	for _, list := range []*[]string{&w.Read, &w.Write} {
		*list = slices.Clone(*list)
		for i, name := range *list {
			for _, word := range []string{theProject, "{cwd}"} {
				if rest, ok := strings.CutPrefix(name, word); ok {
					(*list)[i] = "." + rest
				}
			}
		}
	}
	return &w
}
