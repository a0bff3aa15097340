package yaml_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// Limits of a document, as in package yaml.
const maxDepth, maxNodes = 100, 500_000

func mistake(line, col int, msg string) error { return &yaml.Error{Line: line, Col: col, Msg: msg} }

// libraryParse parses one document with the library, for comparison.
func libraryParse(data []byte) (*yaml.Node, error) {
	if len(data) > yaml.MaxSize {
		return nil, mistake(1, 1, fmt.Sprintf("the file has %d bytes, the limit is %d", len(data), yaml.MaxSize))
	}
	if line := tooDeep(data); line > 0 {
		return nil, mistake(line, 1, fmt.Sprintf("brackets are nested deeper than %d", maxDepth))
	}
	file, err := libraryTokens(data)
	if err != nil {
		return nil, err
	}
	root := &yaml.Node{Kind: yaml.Null, Line: 1, Col: 1}
	seen := false
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if _, comment := doc.Body.(*ast.CommentGroupNode); comment {
			continue
		}
		if seen {
			at := position(doc.Body)
			return nil, mistake(at.Line, at.Column, "a second document: a file can contain only one")
		}
		seen = true
		c := converter{anchors: map[string]*yaml.Node{}}
		if root, err = c.convert(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// libraryTokens calls the library. A panic of the library is treated as a parse error.
func libraryTokens(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, mistake(1, 1, fmt.Sprintf("cannot be read as YAML: %v", r))
		}
	}()
	file, err = parser.ParseBytes(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), 0)
	if err == nil {
		return file, nil
	}
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) && located.GetToken() != nil && located.GetToken().Position != nil {
		p := located.GetToken().Position
		return nil, mistake(p.Line, p.Column, located.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return nil, mistake(1, 1, first)
}

// tooDeep returns the line in which flow brackets or indentation are nested too deeply, or 0.
func tooDeep(data []byte) int {
	depth, line, indent := 0, 1, 0
	atStart := true
	for _, b := range data {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			line++
			indent, atStart = 0, true
			continue
		}
		if atStart && (b == ' ' || b == '-' || b == '?') {
			indent++
		} else {
			atStart = false
		}
		if depth > maxDepth || indent > 8*maxDepth {
			return line
		}
	}
	return 0
}

// converter converts the tree of the library to the tree of this package.
type converter struct {
	anchors map[string]*yaml.Node
	nodes   int
}

func (c *converter) convert(in ast.Node, depth int) (*yaml.Node, error) {
	at := position(in)
	n := &yaml.Node{Line: at.Line, Col: at.Column}
	c.nodes++
	if depth > maxDepth {
		return nil, mistake(n.Line, n.Col, fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	if c.nodes > maxNodes {
		return nil, mistake(n.Line, n.Col, fmt.Sprintf("more than %d values", maxNodes))
	}
	switch in := in.(type) {
	case nil, *ast.NullNode:
	case *ast.BoolNode:
		n.Kind, n.Text = yaml.Bool, fmt.Sprint(in.Value)
	case *ast.IntegerNode:
		n.Kind, n.Text = yaml.Number, in.Token.Value
	case *ast.FloatNode:
		n.Kind, n.Text = yaml.Number, in.Token.Value
	case *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Text = yaml.String, in.GetToken().Value
	case *ast.StringNode:
		n.Kind, n.Text = yaml.String, in.Value
	case *ast.LiteralNode:
		n.Kind, n.Text = yaml.String, in.Value.Value
	case *ast.TagNode:
		return nil, mistake(n.Line, n.Col, fmt.Sprintf("tags such as %s are not supported", in.Start.Value))
	case *ast.AnchorNode:
		v, err := c.convert(in.Value, depth+1)
		if err != nil {
			return nil, err
		}
		c.anchors[in.Name.String()] = v
		return v, nil
	case *ast.AliasNode:
		v := c.anchors[in.Value.String()]
		if v == nil {
			return nil, mistake(n.Line, n.Col, fmt.Sprintf("alias *%s has no anchor before it", in.Value))
		}
		c.nodes += librarySize(v)
		if c.nodes > maxNodes {
			return nil, mistake(n.Line, n.Col, fmt.Sprintf("more than %d values", maxNodes))
		}
		return v, nil
	case *ast.SequenceNode:
		n.Kind = yaml.List
		for _, item := range in.Values {
			v, err := c.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, v)
		}
	case *ast.MappingNode:
		n.Kind = yaml.Map
		for _, pair := range in.Values {
			if err := c.pair(n, pair, depth); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		n.Kind = yaml.Map
		if err := c.pair(n, in, depth); err != nil {
			return nil, err
		}
	default:
		return nil, mistake(n.Line, n.Col, fmt.Sprintf("%s is not supported here", in.Type()))
	}
	if n.Kind == yaml.Map && len(n.Pairs) > 0 {
		n.Line, n.Col = n.Pairs[0].Key.Line, n.Pairs[0].Key.Col // the library uses the position of the colon
	}
	return n, nil
}

func (c *converter) pair(n *yaml.Node, in *ast.MappingValueNode, depth int) error {
	if in.Key.IsMergeKey() {
		at := position(in.Key)
		return mistake(at.Line, at.Column, "merge keys (<<) are not supported: write the keys out")
	}
	key, err := c.convert(in.Key, depth+1)
	if err != nil {
		return err
	}
	if key.Kind == yaml.List || key.Kind == yaml.Map {
		return mistake(key.Line, key.Col, "a key must be text")
	}
	key.Kind = yaml.String
	for _, p := range n.Pairs {
		if p.Key.Text == key.Text {
			return mistake(key.Line, key.Col, fmt.Sprintf("key %q is defined twice, first in line %d: delete one", key.Text, p.Key.Line))
		}
	}
	value, err := c.convert(in.Value, depth+1)
	if err != nil {
		return err
	}
	n.Pairs = append(n.Pairs, yaml.Pair{Key: key, Value: value})
	return nil
}

func position(n ast.Node) *token.Position {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return &token.Position{Line: 1, Column: 1}
	}
	return n.GetToken().Position
}

func librarySize(n *yaml.Node) int {
	size := 1
	for _, item := range n.Items {
		size += librarySize(item)
	}
	for _, p := range n.Pairs {
		size += 1 + librarySize(p.Value)
	}
	return size
}
