package policytest

import (
	_ "embed" // for the schema
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

//go:embed policytest.schema.json
var schema string

// Schema returns the JSON Schema of test files, for editors and other tools. It includes the
// names of events, agents, fields and packs of this version. Parse rejects everything that the
// schema rejects, and more.
func Schema() string {
	names, _ := rawjson.Marshal(packs.All().Names()) // marshaling texts cannot fail
	event := parts(reflect.TypeFor[wire.Event]())
	event["type"], event["required"] = "object", []string{"kind"}
	members := event["properties"].(map[string]any)
	members["kind"] = map[string]any{"$ref": "#/$defs/kind"}
	members["grapnel"] = true // the version of the dialect
	eventSchema, _ := rawjson.Marshal(event)
	return policy.WithNames(strings.NewReplacer(`["$pack"]`, string(names), `"$event"`, string(eventSchema)).Replace(schema))
}

// parts returns a schema for a part of an event: only the members of its Go type are allowed.
func parts(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
	case t.Kind() == reflect.Slice:
		if items := parts(t.Elem()); len(items) > 0 {
			return map[string]any{"items": items}
		}
	case t.Kind() == reflect.Struct:
		members := map[string]any{}
		for name, of := range membersOf(t) {
			members[name] = parts(of)
		}
		return map[string]any{"type": []string{"object", "null"}, "properties": members, "additionalProperties": false}
	}
	return map[string]any{}
}

// membersOf returns the JSON members of a struct and of the structs that it embeds.
func membersOf(t reflect.Type) map[string]reflect.Type {
	known := map[string]reflect.Type{}
	for f := range t.Fields() {
		if f.Anonymous {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			maps.Copy(known, membersOf(of))
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			known[name] = f.Type
		}
	}
	return known
}
