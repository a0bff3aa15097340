package webhook

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

func deliveryOf(t *testing.T, event string) *Delivery {
	t.Helper()
	return &Delivery{ID: "msg_1", Target: "user::team", Event: json.RawMessage(event), Created: time.Date(2026, 11, 21, 20, 0, 0, 5, time.FixedZone("x", 3600))}
}

// A plain body is the event in the same form as for servers that decide.
func TestPlain(t *testing.T) {
	t.Parallel()
	ev := (&grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Time: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), Agent: grapnel.Agent{Name: "codex"},
		Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{"n":1.00,"command":"ls <a>"}`)},
	}).WithVerdict(&grapnel.Verdict{Decision: grapnel.Block})
	raw, err := json.Marshal(wire.Of(ev))
	if err != nil {
		t.Fatal(err)
	}
	want, err := dialect.Plain().WriteEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, bytes.TrimSpace(want)) // like json.Marshal does; both texts have the same meaning
	for _, name := range []string{"", BodyPlain} {
		body, media, err := Body(name, deliveryOf(t, string(raw)))
		if err != nil || media != "application/json" || !bytes.Equal(body, escaped.Bytes()) {
			t.Errorf("%s, %v\n%s, want\n%s", media, err, body, escaped.Bytes())
		}
		again, _, err := Body(name, deliveryOf(t, string(body)))
		if err != nil || !bytes.Equal(again, body) {
			t.Errorf("an event that has its version already: %v\n%s", err, again)
		}
	}
	if !bytes.Contains(want, []byte(`"decision":"block"`)) || !bytes.Contains(want, []byte("1.00")) {
		t.Errorf("without the verdict, or with other numbers: %s", want)
	}
}

var (
	reverseDNS = regexp.MustCompile(`^dev\.grapnel\.[^\x00-\x1f]+$`)
	rfc3339    = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)
	attribute  = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
)

// checkCloudEvent checks the rules for a CloudEvent in JSON: the names, the required attributes
// that must not be empty, and their formats.
func checkCloudEvent(t *testing.T, body []byte) map[string]json.RawMessage {
	t.Helper()
	var ce map[string]json.RawMessage
	if err := json.Unmarshal(body, &ce); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	texts := map[string]string{}
	for name, raw := range ce {
		var text string
		if name == "data" {
			continue
		}
		if !attribute.MatchString(name) || json.Unmarshal(raw, &text) != nil || text == "" {
			t.Errorf("%s: attribute %q is %s", body, name, raw)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }) {
			t.Errorf("%s: a control character in %q", body, name)
		}
		texts[name] = text
	}
	source, err := url.Parse(texts["source"])
	if texts["specversion"] != "1.0" || texts["id"] != "msg_1" || err != nil || !source.IsAbs() || !reverseDNS.MatchString(texts["type"]) || texts["datacontenttype"] != "application/json" {
		t.Errorf("%s: %v", body, err)
	}
	if at := texts["time"]; at != "" {
		if _, err := time.Parse(time.RFC3339, at); err != nil || !rfc3339.MatchString(at) {
			t.Errorf("%s: time %s: %v", body, at, err)
		}
	}
	return ce
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	body, media, err := Body(BodyCloudEvents, deliveryOf(t, `{"kind":"tool.before","time":"2026-11-21T21:00:00.5+01:00","agent":{"name":"claude-code"},"session":{"id":"s 1"},"tool":{"name":"Bash","input":{"command":"ls <a>"}}}`))
	if err != nil || media != "application/cloudevents+json; charset=utf-8" {
		t.Fatal(media, err)
	}
	checkCloudEvent(t, body)
	const want = `{"specversion":"1.0","id":"msg_1","source":"grapnel:agents/claude-code","type":"dev.grapnel.tool.before","subject":"s 1","time":"2026-11-21T20:00:00.5Z","datacontenttype":"application/json",` +
		`"data":{"grapnel":1,"kind":"tool.before","time":"2026-11-21T21:00:00.5+01:00","agent":{"name":"claude-code"},"session":{"id":"s 1"},"tool":{"name":"Bash","input":{"command":"ls <a>"}}}}`
	if string(body) != want {
		t.Errorf("%s, want\n%s", body, want)
	}
	for _, odd := range []string{`{}`, `{"agent":{"name":"a b/ü?#"},"kind":"native.x.Odd Name\u0007"}`, `{"session":{"id":"\u0000\n"}}`, `{"time":"0001-01-01T00:00:00Z"}`} {
		body, _, err := Body(BodyCloudEvents, deliveryOf(t, odd))
		if err != nil {
			t.Fatal(odd, err)
		}
		ce := checkCloudEvent(t, body)
		if string(ce["time"]) != `"2026-11-21T19:00:00.000000005Z"` {
			t.Errorf("%s: time %s, want that of the job", odd, ce["time"])
		}
	}
}

// A summary does not contain the content of the event.
func TestSummaries(t *testing.T) {
	t.Parallel()
	j := deliveryOf(t, `{"id":"e1","kind":"tool.before","agent":{"name":"codex"},"session":{"id":"s1"},"tool":{"name":"Bash","input":{"command":"s3cret"}},"verdict":{"decision":"block"}}`)
	for name, want := range map[string]string{
		BodySummary:  `{"hook":"user::team","time":"2026-11-21T19:00:00.000000005Z","id":"e1","agent":"codex","session":"s1","event":"tool.before","tool":"Bash","decision":"block"}`,
		BodyIronClaw: `{"hook":"user::team","point":"beforeToolCall","timestamp":"2026-11-21T19:00:00.000000005+00:00","event":{"type":"toolCall","tool_name":"Bash","context":"chat","parameter_count":1},"metadata_present":false}`,
	} {
		body, media, err := Body(name, j)
		if err != nil || media != "application/json" || string(body) != want {
			t.Errorf("%s: %s, %v\n%s, want\n%s", name, media, err, body, want)
		}
	}
	if _, _, err := Body(BodyIronClaw, deliveryOf(t, `{"kind":"notification.sent"}`)); err == nil {
		t.Error("IronClaw has a word for everything")
	}
}

// Input that is not an event is an error.
func TestBadEvents(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "null", "[]", `"x"`, "{", `{"kind":1}`, `{} {}`} {
		for _, name := range Bodies() {
			body, _, err := Body(name, deliveryOf(t, raw))
			if err == nil && !(name == BodyPlain && raw == `{"kind":1}`) {
				t.Errorf("%s of %q is %s", name, raw, body)
			}
		}
	}
}

// For any event, the body is one JSON object on one line, and does not change.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{"{}", `{"kind":"tool.before"}`, `{"grapnel":1}`, "{ \n}", `{"session":{"id":"\u0000"}}`, "null", `{"agent":{"name":"%"}}`, "{\"kind\":\"\xff\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, name := range Bodies() {
			body, _, err := Body(name, deliveryOf(t, raw))
			if err != nil {
				continue
			}
			again, _, _ := Body(name, deliveryOf(t, raw))
			if !json.Valid(body) || body[0] != '{' || bytes.ContainsAny(body, "\r\n") || !bytes.Equal(body, again) {
				t.Errorf("%s of %q is %q", name, raw, body)
			}
			if name == BodyCloudEvents {
				checkCloudEvent(t, body)
			}
		}
	})
}

// Each body names the origin, except the one whose format IronClaw defines. Repeated attempts send
// the same bytes.
func TestOrigin(t *testing.T) {
	t.Parallel()
	// The agent sends members that look like the origin.
	forged := []byte(`{"kind":"tool.before","origin":{"host":"forged"},"Origin":{"host":"forged"},"grapnelhost":"forged","agent":{"name":"x","origin":"forged"},"tool":{"name":"Bash","input":{"origin":"forged"}}}`)
	got := dialect.Receive(dialect.Plain(), dialect.Input{Payload: forged})
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	ev := got.Event.WithVerdict(&grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Hook: "managed::no-rm"}}})
	origin := (&wire.Origin{Host: "laptop-7\u0007", User: "ana", Machine: "m1", PolicyDigest: "d1", PolicyRevision: "r1"}).For("team", "user", ev.Verdict())
	event, err := Event(ev, origin)
	if err != nil {
		t.Fatal(err)
	}
	const member = `"origin":{"host":"laptop-7\u0007","user":"ana","machine":"m1","policy_digest":"d1","policy_revision":"r1","hook":{"name":"team","source":"user"},"decided":[{"name":"no-rm","source":"managed"}]}}`
	for _, name := range Bodies() {
		body, _, err := Body(name, deliveryOf(t, string(event)))
		again, _, _ := Body(name, deliveryOf(t, string(event)))
		if err != nil || !bytes.Equal(body, again) {
			t.Fatalf("%s: %v\n%s\n%s", name, err, body, again)
		}
		if name == BodyIronClaw {
			if bytes.Contains(body, []byte("laptop-7")) {
				t.Errorf("%s: %s", name, body)
			}
			continue
		}
		if name == BodyCloudEvents {
			ce := checkCloudEvent(t, body)
			for attribute, want := range map[string]string{
				"grapnelhost": "laptop-7", "grapneluser": "ana", "grapnelmachine": "m1", "grapnelpolicy": "d1", "grapnelrevision": "r1", "grapnelhook": "user::team", "grapneldecided": "managed::no-rm",
			} {
				if string(ce[attribute]) != `"`+want+`"` {
					t.Errorf("attribute %s is %s, want %s", attribute, ce[attribute], want)
				}
			}
			body = ce["data"]
		}
		if !bytes.HasSuffix(body, []byte(member)) || topMembers(t, body)["origin"] != 1 {
			t.Errorf("%s: %s, want the end\n%s", name, body, member)
		}
	}
}

// topMembers counts the members of an object by their names in lower case.
func topMembers(t *testing.T, object []byte) map[string]int {
	t.Helper()
	dec, counts := json.NewDecoder(bytes.NewReader(object)), map[string]int{}
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		counts[strings.ToLower(name.(string))]++
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}
