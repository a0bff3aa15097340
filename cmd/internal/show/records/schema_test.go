package records_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The schema has the members, types and required members of the Go types that are stored.
func TestSchemaOfTypes(t *testing.T) {
	t.Parallel()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(records.Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	for name, typ := range map[string]reflect.Type{
		"record": reflect.TypeFor[spool.Entry](), "hook": reflect.TypeFor[grapnel.HookRun](), "reason": reflect.TypeFor[grapnel.Reason](),
	} {
		def := schema.Defs[name]
		var known []string
		for _, f := range reflect.VisibleFields(typ) {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "-" || tag == "" {
				continue
			}
			known = append(known, tag)
			prop := def.Properties[tag]
			if prop == nil {
				t.Errorf("%s: the schema has no member %q", name, tag)
				continue
			}
			// A late line has no decision; the schema requires it of all others.
			if required := options == ""; required != slices.Contains(def.Required, tag) && (name != "record" || tag != "decision") {
				t.Errorf("%s: the schema requires %q: %v, want %v", name, tag, !required, required)
			}
			if got, want := typeOf(&schema, prop), jsonType(f.Type); got != want {
				t.Errorf("%s: the schema says that %q is %s, want %s", name, tag, got, want)
			}
		}
		for tag := range def.Properties {
			if !slices.Contains(known, tag) {
				t.Errorf("%s: the schema has a member %q, which %v does not have", name, tag, typ)
			}
		}
	}
}

// typeOf returns the type in a schema, without null.
func typeOf(whole, s *jsonschema.Schema) string {
	if s.Ref != "" {
		s = whole.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	switch {
	case s.Enum != nil:
		return "string"
	case len(s.Types) > 0:
		return s.Types[0]
	}
	return s.Type
}

// jsonType returns the type that encoding/json makes of a Go type.
func jsonType(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[grapnel.Decision]() {
		return "string"
	}
	switch t.Kind() { //nolint:exhaustive // the kinds of a Record
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return t.Kind().String()
}
