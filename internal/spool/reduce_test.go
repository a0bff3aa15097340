package spool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

func TestReduce(t *testing.T) {
	t.Parallel()
	wide := limits{total: 1 << 20, text: 1 << 20, mask: true}
	tests := map[string]struct {
		l        limits
		in, want string
	}{
		"nothing to do":     {wide, `{"a":[1,2.50,"x",null,true,{}]}`, `{"a":[1,2.50,"x",null,true,{}]}`},
		"order and numbers": {wide, `{"password":"x","b":1e999,"a":12345678901234567890}`, `{"password":"***","b":1e999,"a":12345678901234567890}`},
		"space":             {wide, " { \"token\" : \"x1\" , \"a\" : [ 1 , 2 ] } ", `{"token":"***","a":[1,2]}`},
		"in a text":         {wide, `{"command":"login --password hunter2 <&>"}`, `{"command":"login --password *** <&>"}`},
		"in an array":       {wide, `{"passwords":1,"password":["a","b",{"c":"d"}]}`, `{"passwords":1,"password":["***","***",{"c":"d"}]}`},
		"under a name":      {wide, `{"env":{"API_KEY":"plain","HOME":"/h"}}`, `{"env":{"API_KEY":"***","HOME":"/h"}}`},
		"empty stays":       {wide, `{"password":""}`, `{"password":""}`},
		"numbers stay":      {wide, `{"token":12,"x":"password"}`, `{"token":12,"x":"password"}`},
		"in a name":         {wide, `{"AKIA` + rep("A", 16) + `":1}`, `{"AKIA***":1}`},
		"escaped letters":   {wide, `{"a":"\u0041KIA` + rep("A", 16) + `"}`, `{"a":"AKIA***"}`},
		"escaped by Go":     {wide, `{"a":"x \u003e y"}`, `{"a":"x \u003e y"}`},
		"JSON in a text":    {wide, `{"a":"{\"auth\":\"bWU6Ujd0UHEyV3o5S2RMbTRYdg==\"}"}`, `{"a":"{\"auth\":\"***\"}"}`},
		"escaped tab":       {wide, `{"a":"curl\t-u bob:hunter22xyz x"}`, `{"a":"curl\t-u bob:*** x"}`},
		"escaped slash":     {wide, `{"a":"git clone https:\/\/bob:hunter22xyz@host\/x"}`, `{"a":"git clone https://bob:***@host/x"}`},
		"no valid escape":   {wide, `{"a":"\x p\u0061ssword=x1y2"}`, ""},
		"escaped member":    {wide, `{"p\u0061ssword":"x1y2"}`, `{"p\u0061ssword":"***"}`},
		"escaped name":      {wide, `{"a":"p\u0061ssword=x1y2"}`, `{"a":"password=***"}`},
		"mask off":          {limits{total: 1 << 20, text: 1 << 20}, `{"password":"x"}`, `{"password":"x"}`},
		"long text":         {limits{total: 1000, text: 60}, `{"a":"` + rep("x", 500) + `","b":1}`, `{"a":"` + rep("x", 10) + `… [grapnel: 490 more bytes cut]","b":1}`},
		"between letters":   {limits{total: 1000, text: 60}, `["` + rep("é", 50) + `"]`, `["ééééé… [grapnel: 90 more bytes cut]"]`},
		"of strings":        {limits{total: 300, text: 60}, `["` + rep(`aaaaaaaaaa","`, 60) + `z"]`, ""},
		"of objects":        {limits{total: 300, text: 60}, `[{"k":1}` + rep(`,{"k":1}`, 60) + `]`, ""},
		"of numbers":        {limits{total: 300, text: 60}, `[1` + rep(`,1`, 400) + `]`, ""},
		"of members":        {limits{total: 300, text: 60}, `{"k":{` + rep(`"k":1,`, 60) + `"z":1},"native":{"a":[]}}`, ""},
		"a huge number":     {limits{total: 300, text: 60}, `{"a":` + rep("1", 1000) + `,"b":2}`, `{"a":"… [grapnel: the rest was cut]","b":2}`},
		"a huge name":       {limits{total: 300, text: 60}, `{"a":1,"` + rep("n", 100) + `":2}`, `{"a":1,"…":"… [grapnel: the rest was cut]"}`},
		"only escapes":      {limits{total: 400, text: 200}, `{"a":"` + rep(`\u0001`, 300) + `"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(tt.l.reduce([]byte(tt.in)))
			if tt.want != "" && got != tt.want {
				t.Errorf("reduce(%.200s) = %s, want %s", tt.in, got, tt.want)
			}
			if tt.want == "" && !Cut([]byte(got)) {
				t.Errorf("reduce(%.200s) = %s, want a mark", tt.in, got)
			}
			if !json.Valid([]byte(got)) || len(got) > tt.l.total {
				t.Errorf("reduce(%.200s) = %s, %d bytes, want valid JSON of %d at most", tt.in, got, len(got), tt.l.total)
			}
		})
	}
}

func TestReduceDeep(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		rep("[", 9000) + rep("]", 9000),
		rep(`{"a":`, 9000) + "1" + rep("}", 9000),
	} {
		got := limits{total: 1000, text: 100, mask: true}.reduce([]byte(in))
		if !json.Valid(got) || len(got) > 1000 {
			t.Errorf("reduce(%.20s...) = %s, want valid JSON of 1000 bytes at most", in, got)
		}
	}
}

// Cutting a text in the middle of a secret must not leave the first half of the secret.
func TestReduceCutsNoSecretInHalf(t *testing.T) {
	t.Parallel()
	token := "sk-ant-" + rep("aB3x", 25)
	for at := range 400 {
		in, err := rawjson.Marshal(map[string]string{"a": rep("x ", at/2) + token + rep(" y", 200)})
		if err != nil {
			t.Fatal(err)
		}
		l := limits{total: 1 << 20, text: 200, mask: true}
		if got := string(l.reduce(in)); strings.Contains(got, "aB3x") {
			t.Fatalf("with the secret at byte %d: %s", at, got)
		}
		if got := l.clip(rep("x ", at/2) + token + rep(" y", 2000)); strings.Contains(got, "aB3x") {
			t.Fatalf("with the secret at byte %d: %s", at, got)
		}
	}
}

// After any cut, the event can still be read, and its beginning stays.
func TestReduceEvent(t *testing.T) {
	t.Parallel()
	big := rep("secret words and password=hunter2 ", 8000)
	ev := &grapnel.Event{
		ID: "1", Kind: grapnel.ToolBatchAfter, Agent: grapnel.Agent{Name: "a"}, Session: grapnel.Session{ID: "s", CWD: "/c"},
		Tool: &grapnel.Tool{
			Name: "Write", Class: grapnel.ClassWrite, Commands: []string{big, big}, Content: big,
			Input: mustJSON(t, map[string]any{"file_path": "/x", "content": big}), Output: mustJSON(t, strings.Fields(big)),
		},
		Prompt: &grapnel.Prompt{Text: big, System: big}, Message: &grapnel.Message{Content: big, Raw: mustJSON(t, big)},
		Model: &grapnel.Model{Request: mustJSON(t, big), Response: mustJSON(t, big)}, Stop: &grapnel.Stop{LastMessage: big},
		Compact: &grapnel.Compact{Instructions: big, Summary: big}, Native: mustJSON(t, map[string]string{"all": big}),
	}
	for i := range 300 {
		ev.Calls = append(ev.Calls, grapnel.Tool{Name: fmt.Sprint("tool", i), Facts: []grapnel.Fact{{At: "/x"}}, Paths: []grapnel.Path{{Path: "/p", Use: grapnel.UseRead}}})
		ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: "/some/path"})
	}
	before := mustJSON(t, ev)
	l := limits{total: 16 << 10, text: 2 << 10, mask: true}
	raw := l.reduce(mustJSON(t, l.slim(ev)))
	if diff := cmp.Diff(string(before), string(mustJSON(t, ev))); diff != "" {
		t.Fatal("slim changed the event itself")
	}
	if len(raw) > l.total || len(raw) < l.total/2 {
		t.Errorf("the event has %d bytes, want %d at most, and not much less", len(raw), l.total)
	}
	var got grapnel.Event
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("the reduced event cannot be read: %v\n%s", err, raw)
	}
	if !cmp.Equal(got.Session, ev.Session) || got.Tool == nil || got.Tool.Name != "Write" || !strings.Contains(string(got.Tool.Input), `"file_path":"/x"`) {
		t.Errorf("the reduced event lost what comes first: %.500s", raw)
	}
	if strings.Contains(string(raw), "hunter2") {
		t.Errorf("the reduced event has a password in it: %s", raw)
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := rawjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzReduce(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":"\u0041\\\"x"},[]],"password":"x","c":{}}`, `["é\ud83d\ude00",null]`, `{"a":`, `{"a" "b"}`, `[,]`, `[1 2]`, `"`, `{`, `]`, `{"a":}`,
		`"\`, "[\"" + rep("x", 300) + "\"]", ``, `{]`, `[}`, `{"a":1}}`, "\"\xff\xfe\"",
	} {
		f.Add([]byte(seed), uint16(200), uint16(50))
	}
	f.Fuzz(func(t *testing.T, raw []byte, total, text uint16) {
		l := limits{total: max(200, int(total)), text: max(50, int(text)), mask: true}
		got := l.reduce(raw)
		if json.Valid(raw) && (!json.Valid(got) || len(got) > max(l.total, 4)) {
			t.Errorf("reduce(%q) = %q, %d bytes, want valid JSON of %d at most", raw, got, len(got), l.total)
		}
	})
}

// However a text is escaped, the same is masked in it as in the text itself.
func TestReduceOfEscapes(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"AKIA" + rep("A", 16), "https://bob:hunter22xyz@host/x", "curl\t-u bob:hunter22xyz ", `"auth": "bWU6Ujd0UHEyV3o5S2RMbTRYdg=="`,
		"password=x1y2", "Bearer abcdefghijklmnop1234", "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
		" ", "\n", `\`, "é", "a > b && c < d", "plain words",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4).Draw(t, "pieces"), "")
		raw := []byte(`{"a":"`)
		for _, r := range text {
			quoted := rawjson.Quote(string(r))
			switch short := quoted[1 : len(quoted)-1]; {
			case rapid.Bool().Draw(t, "as it is"):
				raw = append(raw, short...)
			case r == '/':
				raw = append(raw, `\/`...)
			default:
				raw = fmt.Appendf(raw, `\u%04x`, r)
			}
		}
		raw = append(raw, `"}`...)
		var got struct{ A string }
		out := limits{total: 1 << 14, text: 1 << 13, mask: true}.reduce(raw)
		if err := json.Unmarshal(out, &got); err != nil || got.A != Mask(text) {
			t.Fatalf("reduce(%s) = %s, %v\nwant the text %q", raw, out, err, Mask(text))
		}
	})
}
