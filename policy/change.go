package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// allFields returns the fields that hooks can change, over all events.
func allFields() []grapnel.Field {
	var fields []grapnel.Field
	for _, c := range grapnel.Contracts() {
		for _, ch := range c.Changes {
			if !slices.Contains(fields, ch.Field) {
				fields = append(fields, ch.Field)
			}
		}
	}
	return append(fields, policyfile.InputFields()...)
}

// whereInstead describes the events that permit a change of the fields.
func whereInstead(fields []grapnel.Field) string {
	var kinds []string
	for _, c := range grapnel.Contracts() {
		if slices.ContainsFunc(fields, func(f grapnel.Field) bool { return mayChange(&c, f) }) {
			kinds = append(kinds, string(c.Kind))
		}
	}
	if kinds == nil {
		return ""
	}
	return fmt.Sprintf("%s can be changed on %s", joinFields(fields), strings.Join(kinds, ", "))
}

// replace is the hook of a `replace:` action. It applies patterns to the decoded texts of event
// fields.
type replace struct {
	parts   []replacePart
	fields  []grapnel.Field
	message string
}

type replacePart struct {
	re   *prefilter.Regexp
	with string
}

func newReplace(h *policyfile.Hook) *replace {
	r := &replace{fields: h.Fields, message: h.Message, parts: make([]replacePart, len(h.Replace))}
	for i, part := range h.Replace {
		r.parts[i] = replacePart{prefilter.NewRegexp(part.Pattern, part.Literal), part.With}
	}
	return r
}

// Handle returns the fields in which a pattern matched, with their new text.
func (r *replace) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	return changeTexts(ev, r.fields, r.message, "replace", r.apply)
}

// changeTexts applies change to the decoded texts of fields, or of all text fields if fields is
// empty. Parameter what is the name of the action, for errors.
func changeTexts(ev *grapnel.Event, fields []grapnel.Field, message, what string, change func(string) string) (grapnel.Outcome, error) {
	if len(fields) == 0 {
		fields = ev.TextFields()
	}
	c := ev.Contract()
	changed := map[grapnel.Field]json.RawMessage{}
	now := ev // includes changes that were made to its input
	for _, field := range fields {
		switch {
		case !mayChange(&c, field):
		case slices.Contains(policyfile.InputFields(), field):
			next, err := mapView(now, field, change)
			if err != nil {
				return grapnel.Outcome{}, fmt.Errorf("%s in %s: %w", what, field, err)
			}
			if next != now {
				now, changed[grapnel.FieldInput] = next, next.Tool.Input
			}
		default:
			value, differs := now.MapText(field, change)
			if !differs {
				continue
			}
			changed[field] = value
			if field == grapnel.FieldInput {
				var err error
				if now, err = now.Set(field, value); err != nil {
					return grapnel.Outcome{}, err
				}
			}
		}
	}
	if len(changed) == 0 {
		return grapnel.Outcome{}, nil
	}
	return grapnel.Outcome{Set: changed, Message: message}, nil
}

func (r *replace) apply(text string) string {
	for i := range r.parts {
		if part := &r.parts[i]; part.re.MayMatch(text) {
			text = part.re.Compile().ReplaceAllString(text, part.with)
		}
	}
	return text
}

// maxPlaces limits the number of places of a call in which a view is changed. Each place requires
// one pass over the whole input.
const maxPlaces = 256

// mapView applies change to each place of the tool input that holds a view. If nothing changes, it
// returns the event itself.
func mapView(ev *grapnel.Event, view grapnel.Field, change func(string) string) (*grapnel.Event, error) {
	if ev.Tool == nil {
		return ev, nil
	}
	var places []string
	for _, fact := range ev.Tool.Facts {
		if fact.Field == view && fact.Form != "" {
			inside := grapnel.Tool{Input: ev.Tool.Input, Facts: []grapnel.Fact{fact}}
			inside.Derive()
			for _, path := range inside.Paths {
				if change(path.Path) != path.Path {
					return nil, fmt.Errorf("tool %s has %s inside a %s, where it cannot be changed", ev.Tool.Name, path.Path, fact.Form)
				}
			}
		} else if fact.Field == view {
			places = append(places, placesAt(ev, fact.At)...)
		}
	}
	if len(places) > maxPlaces {
		return nil, fmt.Errorf("tool %s has more than %d places for it", ev.Tool.Name, maxPlaces)
	}
	now := ev
	for _, at := range places {
		one := only(now, view, at)
		value, changed := one.MapText(view, change)
		if !changed {
			continue
		}
		one, err := one.Set(view, value)
		if err != nil {
			return nil, err
		}
		if now, err = now.Set(grapnel.FieldInput, one.Tool.Input); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// placesAt expands a pointer with wildcards into the pointers that it matches.
func placesAt(ev *grapnel.Event, at string) []string {
	before, after, star := strings.Cut(at, "/*")
	if !star {
		return []string{at}
	}
	raw, _ := only(ev, grapnel.FieldContent, before).Get(grapnel.FieldContent)
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	var places []string
	for i := range min(len(items), maxPlaces+1) {
		places = append(places, placesAt(ev, before+"/"+strconv.Itoa(i)+after)...)
		if len(places) > maxPlaces {
			break
		}
	}
	return places
}

// only returns a copy of the event with one fact of the tool: the place of one view.
func only(ev *grapnel.Event, view grapnel.Field, at string) *grapnel.Event {
	tool := *ev.Tool
	tool.Facts = []grapnel.Fact{{Field: view, At: at}}
	one := *ev
	one.Tool = &tool
	return &one
}

// set is the hook of a `set:` action.
type set struct {
	values  map[grapnel.Field]json.RawMessage
	places  []policyfile.Place
	patches map[grapnel.Field]json.RawMessage // the places of a field, combined
	message string
}

func newSet(h *policyfile.Hook) *set {
	s := &set{values: h.Set, places: h.Places, message: h.Message}
	trees := map[grapnel.Field]map[string]any{}
	for _, place := range h.Places {
		if trees[place.Field] == nil {
			trees[place.Field] = map[string]any{}
		}
		in := trees[place.Field]
		last := len(place.Path) - 1
		for _, name := range place.Path[:last] {
			next, ok := in[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				in[name] = next
			}
			in = next
		}
		in[place.Path[last]] = place.Value
	}
	for field, tree := range trees {
		if s.patches == nil {
			s.patches = map[grapnel.Field]json.RawMessage{}
		}
		s.patches[field], _ = rawjson.Marshal(tree) // nil for a value without a JSON form
	}
	return s
}

// Handle sets the fields that the event permits.
func (s *set) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	out := grapnel.Outcome{Message: s.message}
	c := ev.Contract()
	for field, value := range s.values {
		if old, has := ev.Get(field); !mayChange(&c, field) || has && slices.Equal(old, value) {
			continue
		}
		if out.Set == nil {
			out.Set = map[grapnel.Field]json.RawMessage{}
		}
		out.Set[field] = value
	}
	for i := range s.places {
		place := &s.places[i]
		if !mayChange(&c, place.Field) {
			continue
		}
		if old, has := ev.Get(place.Field); has {
			if err := reach(place, old); err != nil {
				return grapnel.Outcome{}, err
			}
		}
		if out.Patch == nil {
			out.Patch = map[grapnel.Field]json.RawMessage{}
		}
		out.Patch[place.Field] = s.patches[place.Field]
	}
	return out, nil
}

// reach returns an error if a value on the path to the place is a text or a list, which cannot
// contain members.
func reach(p *policyfile.Place, in json.RawMessage) error {
	at := string(p.Field)
	for _, name := range p.Path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(in, &members); err != nil {
			return fmt.Errorf("set %s: %s is not an object here", p, at)
		}
		if in = members[name]; in == nil {
			return nil
		}
		at += "." + name
	}
	return nil
}

// A shape describes the valid values of a field.
type shape struct {
	what string
	fits func(*yaml.Node) bool
}

var (
	anything = shape{"anything", func(*yaml.Node) bool { return true }}
	text     = shape{"text", func(n *yaml.Node) bool { return n.Kind == yaml.String }}
	object   = shape{"an object", func(n *yaml.Node) bool { return n.Kind == yaml.Map }}
)

// shapeOf returns the shape of a field that hooks can change. Fields that are objects, or can be,
// have places inside.
func shapeOf(field grapnel.Field) (s shape, known bool) {
	switch field {
	case grapnel.FieldPrompt, grapnel.FieldSystem, grapnel.FieldModel, grapnel.FieldText, grapnel.FieldSummary,
		grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent:
		return text, true
	case grapnel.FieldRequest, grapnel.FieldInput:
		return object, true
	case grapnel.FieldResponse, grapnel.FieldOutput, grapnel.FieldMessage:
		return anything, true
	case grapnel.FieldTools:
		return shape{"a list of names of tools", func(n *yaml.Node) bool {
			return n.Kind == yaml.List && !slices.ContainsFunc(n.Items, func(item *yaml.Node) bool { return item.Kind != yaml.String })
		}}, true
	case grapnel.FieldMode:
		return shape{"auto, any or none", func(n *yaml.Node) bool { return slices.Contains([]string{"auto", "any", "none"}, n.Text) }}, true
	case grapnel.FieldNext:
		return shape{"a call, {name: ..., input: {...}}", func(n *yaml.Node) bool {
			name, input := n.Get("name"), n.Get("input")
			return name != nil && text.fits(name) && (input == nil || object.fits(input))
		}}, true
	case grapnel.FieldClear:
		return shape{"true or false", func(n *yaml.Node) bool { return n.Kind == yaml.Bool }}, true
	case grapnel.FieldAnswer:
		return shape{"an answer, {action: accept, content: {...}}", func(n *yaml.Node) bool {
			action := n.Get("action")
			return action != nil && slices.Contains([]string{"accept", "decline", "cancel"}, action.Text)
		}}, true
	}
	return shape{}, false
}

// hasPlaces lists the fields that can hold objects.
var hasPlaces = []grapnel.Field{
	grapnel.FieldRequest, grapnel.FieldResponse, grapnel.FieldInput, grapnel.FieldOutput, grapnel.FieldNext, grapnel.FieldMessage, grapnel.FieldAnswer,
}

// set parses the fields of a `set:` action, and the places inside them.
func (p *fileParser) set(h *policyfile.Hook, n *yaml.Node) {
	if n.Kind != yaml.Map || len(n.Pairs) == 0 {
		p.fail(n, "for example {tool.command: make test}", "set must be a mapping of fields to values")
		return
	}
	for _, pair := range n.Pairs {
		field, path, ok := placeOf(pair.Key.Text)
		if !ok {
			field = p.field(pair.Key)
		}
		if err := setsAlready(h, field, path); err != nil {
			p.fail(pair.Key, "merge the two", "%v", err)
			continue
		}
		if path != nil {
			h.Places = append(h.Places, policyfile.Place{Field: field, Path: path, Value: pair.Value.JSON()})
			continue
		}
		if s, known := shapeOf(field); known && !s.fits(pair.Value) {
			hint := ""
			if s.what == text.what && (pair.Value.Kind == yaml.Number || pair.Value.Kind == yaml.Bool) {
				hint = "put it in quotes"
			}
			p.fail(pair.Value, hint, "%s must be %s", field, s.what)
		}
		if h.Set == nil {
			h.Set = map[grapnel.Field]json.RawMessage{}
		}
		h.Set[field] = pair.Value.JSON()
	}
}

// placeOf splits a name such as tool.input.timeout into a field and a path inside it.
func placeOf(text string) (field grapnel.Field, path []string, ok bool) {
	for _, field := range hasPlaces {
		if rest, is := strings.CutPrefix(text, string(field)+"."); is {
			path := strings.Split(rest, ".")
			return field, path, !slices.Contains(path, "")
		}
	}
	return "", nil, false
}

func (p *fileParser) field(n *yaml.Node) grapnel.Field {
	known := allFields()
	field := grapnel.Field(n.Text)
	if !slices.Contains(known, field) {
		names := make([]string, len(known))
		for i, f := range known {
			names[i] = string(f)
		}
		hint := wording.Nearest(n.Text, names)
		if n.Text == "tool.cmd" {
			hint = wording.Nearest("tool.command", names)
		}
		if i := slices.IndexFunc(known, func(f grapnel.Field) bool {
			return strings.HasPrefix(n.Text, string(f)+".") && !slices.Contains(hasPlaces, f)
		}); i >= 0 {
			s, _ := shapeOf(known[i])
			hint = fmt.Sprintf("%s is %s and has no members", known[i], s.what)
		}
		p.fail(n, hint, "unknown field %q", n.Text)
	}
	return field
}
