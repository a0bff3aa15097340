package hookfiles

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Text describes the hooks of parsed files.
func Text(f Found) string {
	var b strings.Builder
	for _, h := range f.Hooks {
		if h.Off {
			continue
		}
		fmt.Fprintf(&b, "hook %q: file %d line %d %s on %v", h.Name, h.FileIndex, h.Line, h.At, h.On)
		if h.Timeout > 0 {
			fmt.Fprintf(&b, " timeout %v", time.Duration(h.Timeout))
		}
		if h.OnError != "" {
			fmt.Fprintf(&b, " on_error %s", h.OnError)
		}
		if h.Priority != nil {
			fmt.Fprintf(&b, " priority %d", *h.Priority)
		}
		if h.Sequential {
			b.WriteString(" sequential")
		}
		b.WriteByte('\n')
		if c := h.Run; c != nil {
			fmt.Fprintf(&b, "\trun %s:", c.Speaks)
			if c.Args != nil {
				fmt.Fprintf(&b, " %q", c.Args)
			} else {
				fmt.Fprintf(&b, " %s", c.Line)
			}
			if c.Async {
				b.WriteString(" (async)")
			}
			if c.Scope != grapnel.ScopeUser {
				fmt.Fprintf(&b, " (%v)", c.Scope)
			}
			if len(c.Vars) > 0 {
				fmt.Fprintf(&b, " %q", c.Vars)
			}
			b.WriteByte('\n')
		}
		if m := h.Match; m != nil {
			fmt.Fprintf(&b, "\tmatch tool %v\n", m.Tool)
		}
		if e, ok := h.Matcher.(grapnel.Explainer); ok {
			if text := e.Explain(nil, nil); text != "" {
				fmt.Fprintf(&b, "\t%s\n", text)
			}
		}
		for _, unsupported := range h.Unsupported {
			fmt.Fprintf(&b, "\tlost: %s\n", unsupported)
		}
	}
	for _, kind := range []struct {
		name string
		list []*policyfile.Error
	}{{"broken", f.Broken}, {"error", f.Errors}, {"note", f.Notes}} {
		for _, err := range kind.list {
			fmt.Fprintf(&b, "%s %v\n", kind.name, err)
		}
	}
	return b.String()
}
