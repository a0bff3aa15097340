package yaml_test

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// dump formats a tree for comparison: kinds, positions and texts. It omits the position of an
// absent value, because the library uses either the column of the colon or the next one.
func dump(n *yaml.Node) string {
	var b strings.Builder
	var walk func(n *yaml.Node, indent string)
	walk = func(n *yaml.Node, indent string) {
		if n.Kind == yaml.Null {
			fmt.Fprintf(&b, "%snothing\n", indent)
		} else {
			fmt.Fprintf(&b, "%s%s %d:%d %q\n", indent, n.Kind, n.Line, n.Col, n.Text)
		}
		for _, item := range n.Items {
			walk(item, indent+"  ")
		}
		for _, p := range n.Pairs {
			walk(p.Key, indent+" ?")
			walk(p.Value, indent+" :")
		}
	}
	walk(n, "")
	return b.String()
}

func read(parse func([]byte) (*yaml.Node, error), in string) string {
	n, err := parse([]byte(in))
	if err != nil {
		return "refused"
	}
	return dump(n)
}
