package match

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// An otherName is a further name that a call of an MCP tool may have. The agent's name for the tool
// does not always show where the name of the server ends.
type otherName struct {
	facts *Facts // of the same call with this name
	alias bool   // not the name in the agent: the server's own name, without the plugin that has it
}

// otherNames returns the further names of a call. A rule that blocks or asks matches by any name,
// and an `allow` only if it does by each name that is not an alias.
func (f *Facts) otherNames() []otherName {
	if f.Event.Tool == nil || f.Event.Tool.MCP == nil {
		return nil
	}
	return f.keptOther.get(func() (others []otherName) {
		t := f.Event.Tool
		add := func(mcp grapnel.MCP, alias bool) {
			tool, ev := *t, *f.Event
			tool.MCP, ev.Tool = &mcp, &tool
			others = append(others, otherName{f.of(&ev), alias})
		}
		splits := dialect.MCPSplits(f.Event.Agent.Name, t)
		for i := range splits {
			if i > 0 {
				add(splits[i], false)
			}
		}
		for _, mcp := range append(splits, *t.MCP) {
			for _, server := range pluginServers(mcp.Server) {
				add(grapnel.MCP{Server: server, Tool: mcp.Tool}, true)
			}
		}
		return others
	})
}

// pluginServers returns the names that a plugin's server may have in the plugin. Claude Code calls
// it plugin:PLUGIN:SERVER, and plugin_PLUGIN_SERVER in the names of tools.
func pluginServers(server string) (names []string) {
	if rest, ok := strings.CutPrefix(server, "plugin:"); ok {
		_, own, _ := strings.Cut(rest, ":")
		names = append(names, own)
	}
	rest, ok := strings.CutPrefix(server, "plugin_")
	for ok {
		if _, rest, ok = strings.Cut(rest, "_"); ok {
			names = append(names, rest)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// namesServers reports whether a match depends on the name of an MCP server.
func (c *compiled) namesServers() bool {
	class := func(word string) bool { return slices.Contains(seam.Classes(), word) }
	return c != nil && (len(c.source.MCP) > 0 || slices.ContainsFunc(c.source.Tool, func(word string) bool { return !class(word) }) || c.not.namesServers())
}

// matchAnyName compares globs with each name of a tool.
func (f *Facts) matchAnyName(globs []Glob) bool {
	return matchTool(globs, f.Event.Tool) ||
		slices.ContainsFunc(f.otherNames(), func(n otherName) bool { return matchTool(globs, n.facts.Event.Tool) })
}
