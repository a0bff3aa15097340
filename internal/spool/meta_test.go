package spool

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// fillIn sets all fields of a value, or leaves some of them empty.
func fillIn(t *rapid.T, v reflect.Value, all bool) {
	if !all && rapid.Bool().Draw(t, "leave") {
		return
	}
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		return
	case *grapnel.Decision:
		*at = grapnel.Decision(rapid.IntRange(1, 3).Draw(t, "decision"))
		return
	case **grapnel.Event, **grapnel.Verdict, **grapnel.Outcome, **grapnel.Output, *grapnel.Phase, *error, *map[grapnel.Field]json.RawMessage: // added to it separately, or not stored
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.StringN(1, 20).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(rapid.Int64Range(1, 1<<31).Draw(t, "int"))
	case reflect.Float64:
		v.SetFloat(float64(rapid.IntRange(1, 1<<40).Draw(t, "us")) / 1000)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(1, 3).Draw(t, "len"), 3))
		for i := range v.Len() {
			fillIn(t, v.Index(i), all)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fillIn(t, field, all)
		}
	default:
		t.Fatalf("a %s in a Record: teach this test, and Entry.meta, to write it", v.Type())
	}
}

// Entry.meta writes the same JSON as encoding/json, for every current or future field of a
// Record.
func TestMetaHasAllOfTheRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e Entry
		fillIn(t, reflect.ValueOf(&e).Elem(), rapid.Bool().Draw(t, "all"))
		e.InputAt = "" // added separately, like the event
		want, err := rawjson.Marshal(e)
		if e.Late {
			want, err = rawjson.Marshal(struct {
				Entry

				Decision *grapnel.Decision `json:"decision,omitempty"`
			}{Entry: e})
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.meta()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatalf("of %+v (-encoding/json +meta)\n%s", e, diff)
		}
	})
	if _, err := (&Entry{Record: grapnel.Record{Time: time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC)}}).meta(); err == nil {
		t.Error("a time that JSON has no words for was written")
	}
}
