package agenthooks

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
)

// An emission is one event at its point: what interceptors are asked about. It does not
// change; a transform makes another one.
type emission struct {
	point *point
	tree  map[string]any
	text  json.RawMessage // tree as JSON
	ev    *grapnel.Event  // what it was made of
	moved bool            // its target is not as it came
}

// newEmission checks a context: members, nesting, size.
func newEmission(p *point, tree map[string]any, ev *grapnel.Event) (*emission, error) {
	em := &emission{point: p, tree: tree, text: appendJSON(nil, tree), ev: ev}
	if _, err := checkContext(tree); err != nil {
		return em, err
	}
	if depthOf(tree) > maxDepth {
		return em, &unfit{"", fmt.Sprintf("nested deeper than %d levels", maxDepth)}
	}
	if len(em.text) > maxSize {
		return em, &unfit{"", fmt.Sprintf("longer than %d bytes", maxSize)}
	}
	return em, nil
}

// copy is the context for one interceptor, who may do with it what it likes.
func (em *emission) copy() json.RawMessage { return bytes.Clone(em.text) }

func (em *emission) target() any { return em.tree["target"] }

// with is the emission with another target, which its twin repeats.
func (em *emission) with(target any) (*emission, error) {
	tree := put(em.tree, "target", target)
	moved, err := newEmission(em.point, put(tree, em.point.twin, target), em.ev)
	moved.moved = true
	return moved, err
}

// apply is the emission as a transform leaves it. A reason says why it cannot be
// applied; the emission is then as it was, unless it is only its shape that broke.
func (em *emission) apply(t *Change) (*emission, string) {
	if em.point.fixed {
		return em, reasonTargetForbidden
	}
	steps, reason := parsePath(t.Path)
	if reason != "" {
		return em, reason
	}
	var value any
	if len(t.Value) > 0 {
		var err error
		if value, err = parse(t.Value, ""); err != nil {
			return em, reasonTransformInvalid
		}
	}
	target, ok := replace(em.target(), steps, value)
	if !ok {
		return em, reasonTransformInvalid
	}
	moved, err := em.with(target)
	if err != nil {
		return moved, reasonContextInvalid
	}
	return moved, ""
}
