package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

type object = map[string]any

// A Schema is a JSON Schema with the keywords that the schemas of Grapnel use. Tests in
// proofs/reference/schema compare it with the library of Google, which users would have to require.
type Schema struct{ root object }

// ParseSchema reads a JSON Schema. It refuses keywords that Validate ignores.
func ParseSchema(text string) (*Schema, error) {
	s := &Schema{}
	if err := json.Unmarshal([]byte(text), &s.root); err != nil {
		return nil, err
	}
	return s, known(s.root)
}

// Of returns a schema for one of the definitions.
func (s *Schema) Of(def string) *Schema {
	return &Schema{object{"$ref": "#/$defs/" + def, "$defs": s.root["$defs"]}}
}

// Validate returns the first error of a value, as json.Unmarshal returns it.
func (s *Schema) Validate(v any) error { return s.check(s.root, v) }

// Keywords by the form of their argument.
var (
	annotations = []string{"$schema", "$id", "title", "description", "examples", "default"}
	values      = []string{"type", "const", "enum", "pattern", "required", "uniqueItems", "dependentRequired", "$ref"}
	limits      = []string{"minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems", "minProperties"}
	rules       = []string{"items", "additionalProperties", "propertyNames", "not", "if", "then"}
	lists       = []string{"anyOf", "oneOf", "allOf"}
	tables      = []string{"properties", "$defs", "dependentSchemas"}
)

// known returns an error for a keyword that is in none of the lists.
func known(rule any) error {
	words, ok := rule.(object)
	if _, is := rule.(bool); !ok && !is {
		return fmt.Errorf("%v is not a schema", rule)
	}
	var below []any
	for word, arg := range words {
		switch {
		case slices.Contains(rules, word):
			below = append(below, arg)
		case slices.Contains(lists, word):
			below = append(below, arg.([]any)...)
		case slices.Contains(tables, word):
			for _, one := range arg.(object) {
				below = append(below, one)
			}
		case !slices.Contains(slices.Concat(annotations, values, limits), word):
			return fmt.Errorf("unknown keyword %q", word)
		}
	}
	for _, one := range below {
		if err := known(one); err != nil {
			return err
		}
	}
	return nil
}

// check validates a value against a rule: true, false, or an object of keywords.
func (s *Schema) check(rule, v any) error {
	words, ok := rule.(object)
	if !ok {
		if rule == false {
			return fmt.Errorf("%v is not permitted", v)
		}
		return nil
	}
	for _, part := range []func(words object, v any) error{s.value, limited, s.combined, s.members, s.elements} {
		if err := part(words, v); err != nil {
			return err
		}
	}
	return nil
}

// value checks the keywords about the whole value.
func (s *Schema) value(words object, v any) error {
	if ref, ok := words["$ref"].(string); ok {
		var at any = s.root
		for _, name := range strings.Split(ref, "/")[1:] {
			at = at.(object)[name]
		}
		if at == nil {
			return fmt.Errorf("no definition %s", ref)
		}
		if err := s.check(at, v); err != nil {
			return err
		}
	}
	types, ok := words["type"].([]any)
	if one := words["type"]; one != nil && !ok {
		types = []any{one}
	}
	if types != nil && !slices.ContainsFunc(types, func(t any) bool { return isType(t, v) }) {
		return fmt.Errorf("%v is not of type %v", v, types)
	}
	if want, ok := words["const"]; ok && !reflect.DeepEqual(v, want) {
		return fmt.Errorf("%v is not %v", v, want)
	}
	if some, ok := words["enum"].([]any); ok && !contains(some, v) {
		return fmt.Errorf("%v is not one of %v", v, some)
	}
	if text, ok := v.(string); ok && words["pattern"] != nil && !regexp.MustCompile(words["pattern"].(string)).MatchString(text) {
		return fmt.Errorf("%q does not match %s", text, words["pattern"])
	}
	return nil
}

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(one any) bool { return reflect.DeepEqual(one, v) })
}

func isType(t, v any) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case []any:
		return t == "array"
	case object:
		return t == "object"
	case float64:
		return t == "number" || t == "integer" && v == float64(int64(v))
	}
	return false
}

// limited checks numbers and lengths.
func limited(words object, v any) error {
	var n float64
	var of []string
	switch v := v.(type) {
	case float64:
		n, of = v, []string{"minimum", "maximum", "exclusiveMinimum"}
	case string:
		n, of = float64(utf8.RuneCountInString(v)), []string{"minLength", "maxLength"}
	case []any:
		n, of = float64(len(v)), []string{"minItems", "maxItems"}
	case object:
		n, of = float64(len(v)), []string{"minProperties"}
	}
	for _, word := range of {
		limit, ok := words[word].(float64)
		if ok && (strings.HasPrefix(word, "min") && n < limit || strings.HasPrefix(word, "max") && n > limit || word == "exclusiveMinimum" && n <= limit) {
			return fmt.Errorf("%v: %s is %v", v, word, limit)
		}
	}
	return nil
}

// combined checks the keywords that contain alternatives.
func (s *Schema) combined(words object, v any) error {
	for _, word := range lists {
		all, ok := words[word].([]any)
		if !ok {
			continue
		}
		var errs []error
		for _, rule := range all {
			if err := s.check(rule, v); err != nil {
				errs = append(errs, err)
			}
		}
		valid := len(all) - len(errs)
		if word == "allOf" && len(errs) > 0 || word == "anyOf" && valid == 0 || word == "oneOf" && valid != 1 {
			return fmt.Errorf("%s: %d of %d: %w", word, valid, len(all), errors.Join(errs...))
		}
	}
	if rule, ok := words["not"]; ok && s.check(rule, v) == nil {
		return fmt.Errorf("%v is excluded", v)
	}
	if rule, ok := words["if"]; ok && s.check(rule, v) == nil && words["then"] != nil {
		return s.check(words["then"], v)
	}
	return nil
}

// members checks the members of an object.
func (s *Schema) members(words object, v any) error {
	members, ok := v.(object)
	if !ok {
		return nil
	}
	if err := has(members, words["required"]); err != nil {
		return err
	}
	properties, _ := words["properties"].(object)
	for name, value := range members {
		rule, ok := properties[name]
		if other, limited := words["additionalProperties"]; !ok && limited {
			rule, ok = other, true
		}
		if ok {
			if err := s.check(rule, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if rule, ok := words["propertyNames"]; ok {
			if err := s.check(rule, name); err != nil {
				return err
			}
		}
		if names, ok := words["dependentRequired"].(object); ok {
			if err := has(members, names[name]); err != nil {
				return err
			}
		}
		if rules, ok := words["dependentSchemas"].(object); ok && rules[name] != nil {
			if err := s.check(rules[name], v); err != nil {
				return err
			}
		}
	}
	return nil
}

// has returns an error if a member is missing.
func has(members object, names any) error {
	list, _ := names.([]any)
	for _, name := range list {
		if _, ok := members[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	return nil
}

// elements checks the elements of a list.
func (s *Schema) elements(words object, v any) error {
	list, _ := v.([]any)
	for i, one := range list {
		if rule, ok := words["items"]; ok {
			if err := s.check(rule, one); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		if words["uniqueItems"] == true && contains(list[:i], one) {
			return fmt.Errorf("%v is there twice", one)
		}
	}
	return nil
}
