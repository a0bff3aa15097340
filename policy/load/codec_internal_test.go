package load

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// filled sets every field, so that a new field that the codec does not store is detected.
// Fields that are nested too deeply, such as matches in matches, stay empty.
func filled(v reflect.Value, n *int, deep int) {
	*n++
	switch v.Kind() { //nolint:exhaustive // only the kinds that policies contain
	case reflect.String:
		v.SetString("a\x1d\x1e\x1f\x1b\x1be\n" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Pointer:
		if deep < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			filled(v.Elem(), n, deep+1)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		if deep > 16 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i), n, deep+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key, n, deep+1)
		filled(value, n, deep+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				filled(v.Field(i), n, deep+1)
			}
		}
	}
}

// TestSnapshotIsWhole checks that a snapshot returns everything that was stored in it.
func TestSnapshotIsWhole(t *testing.T) {
	t.Parallel()
	var p policyfile.Policy
	n := 0
	filled(reflect.ValueOf(&p).Elem(), &n, 0)
	compiled := cmpopts.IgnoreUnexported(policyfile.Policy{}, secret.Rule{}, secret.Allow{})
	for _, snap := range []snapshot{
		{Policy: &p},
		{Policy: &policyfile.Policy{Version: 1}},
		{Policy: &policyfile.Policy{Hooks: []policyfile.Hook{{}, {Match: &policyfile.Match{}, Except: []policyfile.Match{{}, {}}, Context: &policyfile.Context{}, Run: &policyfile.Command{}}}}},
		{Policy: &policyfile.Policy{Hooks: []policyfile.Hook{{HTTP: &policyfile.HTTP{URL: "u"}}, {HTTP: &policyfile.HTTP{URL: "u", Notify: true}}}}},
		{Foreign: &foreignSnapshot{Policy: "/p", Name: "n", Data: []byte("\xff\x1e\x1f\x00\x1b")}},
	} {
		got, _ := readSnapshotText(string(snap.encode()), nil)
		if got == nil {
			t.Fatalf("%q is not read", snap.encode())
		}
		if diff := cmp.Diff(snap, *got, compiled); diff != "" {
			t.Errorf("(-put +taken):\n%s", diff)
		}
	}
}

// FuzzSnapshot decodes arbitrary texts. If a text can be decoded, encoding the result gives the
// same policy.
func FuzzSnapshot(f *testing.F) {
	var p policyfile.Policy
	n := 0
	filled(reflect.ValueOf(&p).Elem(), &n, 0)
	f.Add(string((&snapshot{Policy: &p}).encode()))
	f.Add(string((&snapshot{Foreign: &foreignSnapshot{"/p", "n", []byte("x")}}).encode()))
	f.Fuzz(func(t *testing.T, text string) {
		for _, ev := range []*grapnel.Event{{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{"ls"}}}, {Kind: grapnel.PromptBefore}} {
			_, _ = readSnapshotText(text, (&match.FactCache{}).Early(ev))
		}
		snap, _ := readSnapshotText(text, nil)
		if snap == nil {
			return
		}
		written := snap.encode()
		again, _ := readSnapshotText(string(written), nil)
		if again == nil {
			t.Fatalf("%q is not read", written)
		}
		if more := again.encode(); string(more) != string(written) {
			t.Errorf("%q becomes %q", written, more)
		}
	})
}

// A hook with an unknown field is refused, and so is a hook that is truncated at any place.
func TestCodecRefusesOtherLayouts(t *testing.T) {
	t.Parallel()
	w := &codecWriter{}
	w.hookValue(&policyfile.Hook{Name: "x", Match: &policyfile.Match{Command: []string{"rm"}}, Decide: "block"})
	whole := string(w.b)
	for n := range len(whole) {
		r := codecReader{left: whole[:n]}
		if r.hookValue(&policyfile.Hook{}); !r.bad {
			t.Errorf("%d of %d bytes are read", n, len(whole))
		}
	}
	r := codecReader{left: whole}
	set := r.uint()
	w = &codecWriter{}
	w.uint(set | 1<<60)
	r = codecReader{left: string(w.b) + r.left}
	if r.hookValue(&policyfile.Hook{}); !r.bad {
		t.Error("an unknown field is read")
	}
	nested := &policyfile.Match{}
	for range maxCodecDepth + 1 {
		nested = &policyfile.Match{Not: nested}
	}
	w = &codecWriter{}
	w.matchValue(nested)
	r = codecReader{left: string(w.b)}
	if r.matchValue(&policyfile.Match{}); !r.bad {
		t.Error("a match that is nested too deeply is read")
	}
}
