package install

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// A writer draws settings documents: any JSON, with or without comments, in unusual formats.
type writer struct {
	*rapid.T
	agent Agent
	style int // 0 pretty, 1 minified, 2 anything
}

func (w writer) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(w.T, label)
}

func (w writer) chance(label string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(w.T, label) <= percent
}

func (w writer) space(depth int, lineStart bool) string {
	switch w.style {
	case 0:
		if lineStart {
			return "\n" + strings.Repeat("\t", depth)
		}
		return ""
	case 1:
		return ""
	}
	if !w.chance("extra", 60) {
		return ""
	}
	pieces := []string{" ", "\n", "\t", "\r\n", "    ", "\n  ", "\n\n\t"}
	if w.agent.Setup.Comments {
		pieces = append(pieces, "// c\n", "//\"{[,\r\n", "/* c */", "/* , \n ] \" */", " //\n", "// c  \n  ")
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 3).Draw(w.T, "space"), "")
}

func (w writer) join(depth int, opening string, items []string, closing string) string {
	var b strings.Builder
	b.WriteString(opening)
	for i, it := range items {
		if i > 0 {
			b.WriteString(w.space(depth+1, false) + ",")
		}
		b.WriteString(w.space(depth+1, true) + it)
	}
	if len(items) > 0 || w.style == 2 {
		b.WriteString(w.space(depth, true))
	}
	b.WriteString(closing)
	return b.String()
}

func (w writer) member(depth int, key, value string) string {
	return string(hujson.String(key)) + w.space(depth, false) + ":" + w.space(depth, false) + value
}

func (w writer) value(depth int) string {
	kind := rapid.IntRange(0, 5).Draw(w.T, "kind")
	if depth > 4 && kind > 3 {
		kind = 0
	}
	switch kind {
	case 4:
		var items []string
		for range rapid.IntRange(0, 3).Draw(w.T, "length") {
			items = append(items, w.value(depth+1))
		}
		return w.join(depth, "[", items, "]")
	case 5:
		var items []string
		for _, key := range w.keys("a", "b", "hooks", "", "x y", "{", "PreToolUse") {
			items = append(items, w.member(depth, key, w.value(depth+1)))
		}
		return w.join(depth, "{", items, "}")
	}
	if w.agent.Setup.Cuts {
		return w.pick("scalar", "null", "true", "-1.5e+9", `""`, `"a"`, `"/\" "`)
	}
	return w.pick("scalar", "null", "true", "false", "0", "-1.5e+9", "1E400", `""`, `"a"`, `"//"`, `"/* \" */"`, `"é\u2028\\"`, `"grapnel-hook --id x"`)
}

// keys draws some of the keys in any order.
func (w writer) keys(from ...string) []string {
	perm := rapid.Permutation(from).Draw(w.T, "keys")
	return perm[:rapid.IntRange(0, len(perm)).Draw(w.T, "how many")]
}

// document draws settings with or without hooks of other programs.
func (w writer) document() string {
	depth := 0
	var items []string
	keys := w.keys("env", "hooks", "model", "a b", "permissions", "hooksConfig")
	for _, f := range w.agent.top() {
		if slices.Contains(keys, "hooks") || w.chance(f.key, 50) {
			var b strings.Builder
			field{value: f.value}.write(&b, layout{})
			items = append(items, w.member(1, f.key, b.String()))
		}
	}
	for _, key := range keys {
		if key == "hooks" || w.agent.Setup.Shape == dialect.ShapeNamed {
			hooks, text := w.hooks(1)
			if key == "hooks" {
				key = hooks
			}
			items = append(items, w.member(1, key, text))
			continue
		}
		items = append(items, w.member(1, key, w.value(1)))
	}
	return w.space(0, false) + w.join(depth, "{", items, "}") + w.space(0, w.chance("last line end", 80))
}

// hooks draws entries of other programs in the place of Grapnel's entries.
func (w writer) hooks(depth int) (key, text string) {
	if w.agent.Setup.Shape == dialect.ShapePlugin {
		return "plugins", w.plugins(depth)
	}
	if w.agent.Setup.Shape == dialect.ShapeList {
		return "hooks", w.handlers(depth)
	}
	var names []string
	for _, ev := range w.agent.Events[:min(8, len(w.agent.Events))] {
		name := ev.Native
		if w.agent.Setup.Fold && w.chance("fold", 50) {
			name = strings.ToUpper(name[:1]) + "_" + strings.ToLower(name[1:])
		}
		names = append(names, name)
	}
	var events []string
	for _, name := range w.keys(append(names, "SomethingNew")...) {
		if !w.agent.grouped(name) {
			events = append(events, w.member(depth+1, name, w.handlers(depth+1)))
			continue
		}
		var groups []string
		for range rapid.IntRange(0, 2).Draw(w.T, "groups") {
			groups = append(groups, w.group(depth+2))
		}
		events = append(events, w.member(depth+1, name, w.join(depth+1, "[", groups, "]")))
	}
	return "hooks", w.join(depth, "{", events, "}")
}

func (w writer) plugins(depth int) string {
	texts := func(from ...string) string {
		return w.join(depth+2, "[", w.keys(from...), "]")
	}
	var items []string
	for _, key := range w.keys("load", "entries", "allow", "deny") {
		switch key {
		case "load":
			var load []string
			for _, key := range w.keys("paths", "x") {
				load = append(load, w.member(depth+2, key, texts(`"/a"`, `"/grapnel"`)))
			}
			items = append(items, w.member(depth+1, key, w.join(depth+1, "{", load, "}")))
		case "entries":
			var entries []string
			for _, key := range w.keys("a", "b") {
				entries = append(entries, w.member(depth+2, key, w.value(4)))
			}
			items = append(items, w.member(depth+1, key, w.join(depth+1, "{", entries, "}")))
		default:
			items = append(items, w.member(depth+1, key, texts(`"a"`, `"b"`)))
		}
	}
	return w.join(depth, "{", items, "}")
}

// handlers draws a list of entries.
func (w writer) handlers(depth int) string {
	var handlers []string
	for range rapid.IntRange(0, 2).Draw(w.T, "handlers") {
		handlers = append(handlers, w.join(depth+1, "{", []string{
			w.member(depth+2, "type", `"command"`),
			w.member(depth+2, "command", w.pick("command", `"x"`, `"echo grapnel-hook --id"`, `"/bin/grapnel check"`)),
		}, "}"))
	}
	return w.join(depth, "[", handlers, "]")
}

func (w writer) group(depth int) string {
	items := []string{w.member(depth+1, "hooks", w.handlers(depth+1))}
	if w.chance("matcher", 50) {
		items = append(items, w.member(depth+1, "matcher", w.pick("matcher", `""`, `"*"`, `"Bash"`)))
	}
	return w.join(depth, "{", rapid.Permutation(items).Draw(w.T, "members"), "}")
}

func drawWriter(t *rapid.T) writer {
	return writer{T: t, agent: rapid.SampledFrom(documents()).Draw(t, "agent"), style: rapid.IntRange(0, 2).Draw(t, "style")}
}

func drawWanted(w writer, label string) Wanted {
	var names []string
	for _, ev := range w.agent.Events {
		if !ev.Never {
			names = append(names, ev.Native)
		}
	}
	n := rapid.IntRange(1, min(4, len(names))).Draw(w.T, label+" events")
	return Wanted{
		Agent: w.agent, File: "settings.json",
		Hook: Hook{
			Program: w.pick(label+" program", "/opt/grapnel-hook", "/opt/my tools/grapnel-hook", "/o'pt/grapnel-hook"),
			ID:      w.pick(label+" token", strings.Repeat("a", 26), strings.Repeat("b", 26)),
			Root:    w.pick(label+" root", "", "", "/tmp/r"),
		},
		Events:     rapid.Permutation(names).Draw(w.T, label+" which")[:n],
		Timeout:    time.Duration(rapid.IntRange(1, 90).Draw(w.T, label+" timeout")) * time.Second,
		FailClosed: w.chance(label+" closed", 50),
		Dir:        w.pick(label+" directory", "/s/", "/t/") + pluginDir(w.agent, ""),
	}
}

// edit draws a change of the item at the path. The change can be applied to any document with the
// item. n tells the edits of a document apart: an event that is defined twice is an error.
func (w writer) edit(path string, n int) func(*rapid.T, Agent, []byte) []byte {
	kind := rapid.IntRange(0, 3).Draw(w.T, "edit")
	key := ""
	if i := strings.LastIndex(path, "/"); !strings.HasPrefix(path[i+1:], "#") {
		key = fmt.Sprintf(`"added%d":`, n)
	}
	space := "\n \n"
	if w.agent.Setup.Comments {
		space = w.pick("comment", " ", "/*u*/", "\n", "// u\n")
	}
	scalar := w.pick("new", "1", `"x"`, "null", "[]")
	return func(t *rapid.T, a Agent, data []byte) []byte {
		it := findItem(t, a, data, path)
		switch kind {
		case 0: // another value
			switch it.value.Value.Kind() {
			case '{', '[':
				return data
			}
			return apply(data, []splice{{at: it.value.StartOffset, cut: it.end() - it.value.StartOffset, text: scalar}})
		case 1: // space or a comment before the item
			return apply(data, []splice{{at: it.start, text: space}})
		case 2: // an item before it
			return apply(data, []splice{{at: it.start, text: key + scalar + "," + space}})
		default: // an item after it
			return apply(data, []splice{{at: it.end(), text: "," + space + key + scalar}})
		}
	}
}

// itemPaths lists all items that may be edited without breaking the structure of the hooks: below
// "hooks" the deepest items are whole handlers.
func itemPaths(t *rapid.T, a Agent, data []byte) []string {
	d, err := parse(a, "settings.json", data)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(c *container, path string)
	walk = func(c *container, path string) {
		for i, it := range c.items {
			p := fmt.Sprintf("%s/%s", path, it.key)
			if c.kind == '[' {
				p = fmt.Sprintf("%s/#%d", path, i)
			}
			// It is valid to add keys next to "hooks" and next to events. It is not valid to add
			// a second key of the same name or to replace lists.
			if strings.Contains(p[1:], "/") && !strings.HasPrefix(p, "/hooks/") && !strings.HasPrefix(p, "/plugins/") && !strings.Contains(it.key, "/") {
				paths = append(paths, p)
			}
			if sub := newContainer(it.value); sub != nil {
				walk(sub, p)
			}
		}
	}
	walk(d.root, "")
	return slices.DeleteFunc(paths, func(p string) bool { return strings.Contains(p, "added") })
}

func findItem(t *rapid.T, a Agent, data []byte, path string) item {
	d, err := parse(a, "settings.json", data)
	if err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	c := d.root
	parts := strings.Split(path[1:], "/")
	for n, part := range parts {
		i := slices.IndexFunc(c.items, func(it item) bool { return c.kind == '{' && it.key == part })
		if c.kind == '[' {
			if _, err := fmt.Sscanf(part, "#%d", &i); err != nil {
				t.Fatalf("%q is no index in %q: %v", part, path, err)
			}
		}
		if i < 0 || i >= len(c.items) {
			t.Fatalf("no %s in %q", path, data)
		}
		if n == len(parts)-1 {
			return c.items[i]
		}
		c = newContainer(c.items[i].value)
	}
	panic("unreachable")
}

// failer is a test, or one run of a property test.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustPlan(t failer, w Wanted) *Change {
	t.Helper()
	c, err := Plan(w)
	if err != nil {
		t.Fatalf("Plan in %q: %v", w.Current, err)
	}
	return c
}

// onlyAdds checks that the new file contains every byte of the old one, in order, except for
// white space in empty lists.
func onlyAdds(t failer, old, now []byte) {
	t.Helper()
	squeeze := func(b []byte) []byte { return bytes.Join(bytes.Fields(b), nil) }
	rest := squeeze(now)
	for _, c := range squeeze(old) {
		i := bytes.IndexByte(rest, c)
		if i < 0 {
			t.Fatalf("byte %q of\n%q is lost in\n%q", c, old, now)
		}
		rest = rest[i+1:]
	}
}

// meaning returns the document without format, comments and empty parts of the hooks.
func (w writer) meaning(t failer, data []byte) string {
	t.Helper()
	if data == nil { // the file was removed
		data = []byte("{}")
	}
	v, err := hujson.Parse(append(bytes.Clone(data), '\n'))
	if err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	var prune func(v *hujson.Value) (empty bool)
	prune = func(v *hujson.Value) bool {
		switch v := v.Value.(type) {
		case *hujson.Object:
			v.Members = slices.DeleteFunc(v.Members, func(m hujson.ObjectMember) bool { return prune(&m.Value) })
			return len(v.Members) == 0
		case *hujson.Array:
			v.Elements = slices.DeleteFunc(v.Elements, func(e hujson.ArrayElement) bool { return prune(&e) })
			return len(v.Elements) == 0
		}
		return false
	}
	root := v.Value.(*hujson.Object)
	root.Members = slices.DeleteFunc(root.Members, func(m hujson.ObjectMember) bool {
		name := m.Name.Value.(hujson.Literal).String()
		top := slices.ContainsFunc(w.agent.top(), func(f field) bool { return f.key == name })
		return top || (name == "hooks" || name == "plugins") && prune(&m.Value)
	})
	v.Minimize()
	return string(v.Pack())
}
