package agenthooks

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An emission is one event at its point, as interceptors get it. It is immutable; a transform
// creates a new one.
type emission struct {
	point *point
	tree  map[string]any
	text  json.RawMessage // tree as JSON
	ev    *grapnel.Event  // the source event
	moved bool            // a transform has changed the target
}

// newEmission returns an emission after it has checked the members, nesting and size of its
// context.
func newEmission(p *point, tree map[string]any, ev *grapnel.Event) (*emission, error) {
	em := &emission{point: p, tree: tree, text: rawjson.AppendSorted(nil, tree), ev: ev}
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

// copy returns a copy of the context for one interceptor, which may modify it.
func (em *emission) copy() json.RawMessage { return bytes.Clone(em.text) }

func (em *emission) target() any { return em.tree["target"] }

// with returns the emission with another target, also in the member that repeats the target.
func (em *emission) with(target any) (*emission, error) {
	tree := put(em.tree, "target", target)
	moved, err := newEmission(em.point, put(tree, em.point.twin, target), em.ev)
	moved.moved = true
	return moved, err
}

// apply returns the emission with a transform applied. If that is impossible, it returns a reason
// and the unchanged emission. If only the shape of the result is invalid, it returns a reason and
// the changed emission.
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
