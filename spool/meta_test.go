package spool

import (
	"reflect"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A field that is added to the Record is added to the log.
func TestMetaHasAllOfTheRecord(t *testing.T) {
	t.Parallel()
	kept := reflect.TypeFor[meta]()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[grapnel.Record]()) {
		if field.Name == "Input" || field.Name == "Verdict" {
			continue
		}
		got, ok := kept.FieldByName(field.Name)
		if !ok || got.Tag != field.Tag || got.Type != field.Type {
			t.Errorf("Record has %s %s %s, the log has %v", field.Name, field.Type, field.Tag, got)
		}
	}
}
