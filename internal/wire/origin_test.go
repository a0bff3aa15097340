package wire

import (
	"reflect"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// No member of an event has the name of the origin, in any spelling of its letters. So an agent cannot
// forge it: the members of its event that Grapnel does not know are below "native".
func TestNoMemberIsCalledOrigin(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{reflect.TypeFor[grapnel.Event](), reflect.TypeFor[More]()} {
		for f := range typ.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(name, "origin") || name == "" {
				t.Errorf("%v has the member %q", typ, name)
			}
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	var unknown *Origin
	if text, err := Originated([]byte("{}"), unknown.For("x", "y", nil)); err != nil || string(text) != "{}" {
		t.Errorf("without an origin: %s, %v", text, err)
	}
	v := &grapnel.Verdict{Reasons: []grapnel.Reason{{Hook: "pack:a::b::no-rm"}, {Hook: "pack:a::b::no-rm"}, {Hook: "own"}}}
	o := (&Origin{Host: "h<1>", Machine: "m"}).For("team", "a::b.yaml", v)
	const want = `"origin":{"host":"h<1>","machine":"m","hook":{"name":"team","source":"a::b.yaml"},"decided":[{"name":"no-rm","source":"pack:a::b"},{"name":"own"}]}}`
	for object, head := range map[string]string{"{}": "{", " {\"a\":1}\n": `{"a":1,`} {
		text, err := Originated([]byte(object), o)
		if err != nil || string(text) != head+want {
			t.Errorf("%s: %s, %v", object, text, err)
		}
		if again, err := ReadOrigin(text); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%s is read as %+v, %v", text, again, err)
		}
	}
	if o.Hook.String() != "a::b.yaml::team" || (HookRef{Name: "own"}).String() != "own" {
		t.Errorf("full names: %v", o.Hook)
	}
}
