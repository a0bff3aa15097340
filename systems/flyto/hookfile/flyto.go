// Package hookfile reads hook definitions of Flyto.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// flyto returns the dialect, copied once, because reading uses its tables many times.
var flyto = sync.OnceValue(dialect.Flyto)

// Format is the format of Flyto's hook definitions. Flyto registers hooks in code and defines
// no file. So Grapnel accepts every layout that a file could have: lists by type, with or without
// an outer member `hooks`, and lists of entries that contain their type.
//
//	{"hooks": {"pre_tool_use": [{"command": "./check.sh", "timeout": 10}]}}
//	{"hooks": [{"type": "stop", "command": "./done.sh"}]}
//
// Flyto has no matchers: a hook runs for every event of its type, one hook after the other.
var Format = &hookfiles.Format{
	Name:    "flyto",
	User:    []string{".flyto/hooks.json", "flyto-hooks.json"},
	Project: []string{".flyto/hooks.json", "flyto-hooks.json"},
	Managed: []string{"/etc/flyto/hooks.json"},
	Parse:   parse,
}

func parse(files []hookfiles.File, brief bool) hookfiles.Found {
	r := &reader{hookfiles.NewReader(files, brief)}
	for i := range files {
		root := r.Open(i, files[i].Data, tree.Object, tree.List)
		switch hooks := root.Get("hooks"); {
		case root == nil:
		case root.Is(tree.List):
			r.list("", nil, root)
		case hooks.Is(tree.List):
			r.list("hooks", nil, hooks)
		case hooks != nil:
			r.types("hooks", hooks)
		default:
			r.types("", root)
		}
	}
	return r.Found
}

type reader struct{ *hookfiles.Reader }

// types parses an object with a list of hooks for each type.
func (r *reader) types(at string, n *tree.Node) {
	if n.Kind != tree.Object {
		r.Fail(n, at, "", "is %s, neither an object of types nor a list", n.Kind)
		return
	}
	for _, name := range n.Names {
		at, list := strings.TrimPrefix(at+"."+name, "."), n.Get(name)
		row := r.row(list, at, name)
		switch {
		case row == nil:
		case list.Kind != tree.List:
			r.Fail(list, at, "", "is %s, not a list of hooks", list.Kind)
		default:
			r.list(at, row, list)
		}
	}
}

// row returns the row of a type. For an unknown type it reports an error and returns nil.
func (r *reader) row(n *tree.Node, at, name string) *dialect.EventRow {
	row := flyto().Row(name)
	if row == nil {
		var known []string
		for _, row := range flyto().Events {
			known = append(known, row.Native)
		}
		r.Fail(n, at, wording.Nearest(name, known), "%q is not a type of hook", name)
	}
	return row
}

func (r *reader) list(at string, row *dialect.EventRow, list *tree.Node) {
	for i, n := range list.Items {
		at, row := fmt.Sprintf("%s[%d]", at, i), row
		if n.Kind != tree.Object {
			r.Fail(n, at, "", "is %s, not an object", n.Kind)
			continue
		}
		if row == nil {
			name := n.Get("type")
			if name == nil {
				name = n.Get("hook_type")
			}
			if !name.Is(tree.Text) {
				r.Fail(n, at, `write "type": "pre_tool_use"`, "does not name its type")
				continue
			}
			if row = r.row(name, at+".type", name.Text); row == nil {
				continue
			}
		}
		r.hook(at, row, n)
	}
}

// defaultTimeout is the default timeout.
const defaultTimeout = 30 * time.Second

func (r *reader) hook(at string, row *dialect.EventRow, n *tree.Node) {
	line, url := n.Get("command"), n.Get("webhook_url")
	if line.Is(tree.Text) && strings.TrimSpace(line.Text) == "" || line.Is(tree.Null) {
		line = nil
	}
	switch {
	case line != nil && line.Kind != tree.Text:
		r.Fail(line, at+".command", "", "is %s, not a line of text", line.Kind)
		return
	case line == nil && url.Is(tree.Text) && url.Text != "":
		r.Fail(n, at, "write a hook with notify: in the policy", "has only a webhook_url, and Flyto itself never sent anything there")
		return
	case line == nil:
		r.Fail(n, at, "", "has no command")
		return
	}
	h := hookfiles.Hook{
		Hook: policyfile.Hook{
			Name: hookfiles.CalledAfter(line.Text, row.Native), On: []grapnel.Kind{row.Kind}, Timeout: policyfile.Duration(defaultTimeout),
			Run: &policyfile.Command{Line: line.Text, Speaks: flyto().Name},
		},
		At: at, Sequential: true,
	}
	if url.Is(tree.Text) && url.Text != "" {
		r.Note(url, at+".webhook_url", "", "nothing is sent there; Flyto itself never sent anything")
		h.Unsupported = append(h.Unsupported, fmt.Sprintf("webhook_url: %q, which Flyto itself never called", match.Shorten(url.Text)))
	}
	if t := n.Get("timeout"); t != nil {
		seconds, ok := t.Number()
		switch {
		case ok && seconds == 0: // 0 means the default
		case ok && seconds > 0 && seconds == float64(int(seconds)) && seconds <= hookfiles.MaxTimeout.Seconds():
			h.Timeout = r.Timeout(n, t, at+".timeout", time.Duration(seconds)*time.Second)
		default:
			r.Note(t, at+".timeout", "", "is %s, not a valid number of whole seconds, so it is ignored", match.Shorten(string(t.Raw)))
		}
	}
	// Flyto does not wait for hooks that run after a model call.
	h.Run.Async = n.Get("async").IsTrue() || row.Native == "post_sampling"
	if dir := n.Get("plugin_dir"); dir.Is(tree.Text) && dir.Text != "" {
		root := filepath.FromSlash(dir.Text)
		if !filepath.IsAbs(root) {
			root = filepath.Join(filepath.Dir(r.Files[r.At].Path), root)
		}
		h.Run.Scope, h.Run.Vars = grapnel.ScopePlugin, []string{"FLYTO_PLUGIN_ROOT=" + root}
		h.Unsupported = append(h.Unsupported, "the limits of a plugin's environment")
	}
	r.Add(n, h)
}
