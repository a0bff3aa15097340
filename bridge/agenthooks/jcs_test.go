package agenthooks

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// The table of RFC 8785, appendix B.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := string(appendNumber(nil, math.Float64frombits(bits))); got != want {
			t.Errorf("%016x = %s, want %s", bits, got, want)
		}
	}
}

// encoding/json implements the same rules, except for -0.
func TestNumbersAsEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			t.Skip("not a number in JSON")
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendNumber(nil, f)); got != string(want) {
			t.Fatalf("%b = %s, want %s", f, got, want)
		}
	})
}

func TestOrderOfNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rune16 := rapid.SampledFrom([]rune{'a', 'é', '\uD7FF', '\uE000', '\uFFFD', 0x10000, 0x10FFFF})
		x := rapid.StringOfN(rune16, 0, 4).Draw(t, "x")
		y := rapid.StringOfN(rune16, 0, 4).Draw(t, "y")
		want := slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y)))
		if got := byUnits(x, y); got < 0 != (want < 0) || got > 0 != (want > 0) {
			t.Fatalf("byUnits(%+q, %+q) = %d, want %d", x, y, got, want)
		}
	})
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"b":1.0,"a":[-0,1e-7,1E+21,0.000001]}`:         `{"a":[0,1e-7,1e+21,0.000001],"b":1}`,
		"{\"\uE000\":1,\"\U00010000\":2}":                "{\"\U00010000\":2,\"\uE000\":1}",
		`"<>&\u2028\u00e9\u000f\u000A\/\ud83d\ude00"`:    "\"<>&\u2028é\\u000f\\n/😀\"",
		` { "x" : [ true , false , null , { } , [ ] ] }`: `{"x":[true,false,null,{},[]]}`,
		`9007199254740993`:                               `9007199254740992`,
	} {
		got, err := Canonical(json.RawMessage(raw))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", raw, got, err, want)
		}
	}
	for raw, why := range map[string]string{
		`1e999`: "a number that is not finite", `{"a":{"b":"\ud800"}}`: "a.b: not valid Unicode", "[0,\"\xff\"]": "[1]: not valid Unicode",
		`{"\udc00":1}`: "not valid Unicode", `{"a":1,"\u0061":2}`: "a: there twice", `{"a":1} 2`: "not valid JSON", `NaN`: "not valid JSON", ``: "not valid JSON",
		strings.Repeat("[", 129) + strings.Repeat("]", 129): "nested deeper than 128 levels",
	} {
		if got, err := Canonical(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Canonical(%.40s) = %s, %v, want an error with %q", raw, got, err, why)
		}
	}
}

// A parsed value is written again without loss, and its canonical form is a fixed point.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,"x\u00e9",null,true]}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\ud83d"`, `{"a":1,"a":2}`, "\"\x80\"", `[[[]]]`, `-0.0`, `1e400`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parse(raw, "")
		if err != nil {
			return
		}
		text := rawjson.AppendSorted(nil, v)
		again, err := parse(text, "")
		if err != nil || string(rawjson.AppendSorted(nil, again)) != string(text) {
			t.Fatalf("%q reads as %q, and that as %v, %v", raw, text, again, err)
		}
		first, err := Canonical(raw)
		if err != nil {
			return
		}
		second, err := Canonical(first)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%q is %q, and that is %q, %v", raw, first, second, err)
		}
	})
}
