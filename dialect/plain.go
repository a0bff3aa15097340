package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// PlainVersion is the version of the plain dialect. Releases may add fields within a version;
// readers ignore unknown fields.
const PlainVersion = 1

// Plain returns Grapnel's own dialect: the Event, Outcome and Verdict as JSON, one object on one
// line each. Its schema is [PlainSchema].
func Plain() *Dialect { return plain.clone() }

// plain is Grapnel's own dialect: the Event, Outcome and Verdict as JSON, one object on one line
// each. Command hooks use it, and agents without a dialect of their own. Its schema is
// plain.schema.json, next to this file.
var plain = &Dialect{
	Name: "plain",
	Speaks: func(top map[string]json.RawMessage) bool {
		return top["kind"] != nil && top["hook_event_name"] == nil
	},
	ReadEvent:    readPlainEvent,
	WriteVerdict: writePlainVerdict,
	WriteEvent:   writePlainEvent,
	ReadOutcome:  readPlainOutcome,
}

// plainEvent is the wire format of an Event.
type plainEvent struct {
	Version int `json:"grapnel"`
	wire.Event
}

// plainVerdict is the wire format of a Verdict. Changes has the new values of the event's fields.
type plainVerdict struct {
	Version int `json:"grapnel"`
	*grapnel.Verdict
}

func readPlainEvent(_ *EventRow, top map[string]json.RawMessage, in Input) (*grapnel.Event, error) {
	version, ev := 0, &grapnel.Event{}
	if raw := top["grapnel"]; raw != nil {
		if err := json.Unmarshal(raw, &version); err != nil {
			return nil, err
		}
	}
	var more wire.More
	for _, part := range []any{ev, &more} {
		if err := membersInto(top, reflect.ValueOf(part).Elem()); err != nil {
			return nil, err
		}
	}
	switch {
	case version > PlainVersion:
		return nil, fmt.Errorf("version %d of the plain dialect is newer than %d: update grapnel", version, PlainVersion)
	case ev.Kind == "" && in.Event == "":
		return nil, errors.New("the event has no kind")
	case ev.Kind == "":
		ev.Kind = grapnel.Kind(in.Event)
	}
	if !ev.Kind.Known() && !ev.Kind.Native() {
		return nil, fmt.Errorf("unknown event %q", ev.Kind)
	}
	if ev.Tool != nil && ev.Tool.Facts != nil {
		ev.Tool.Derive()
	}
	return more.Add(ev), nil
}

// exactly decodes valid JSON into v. It matches member names of structs exactly, and of duplicate
// names it uses the last one. encoding/json would ignore letter case and merge an object that
// occurs twice. exactly uses encoding/json only for values that are not structs: for a struct,
// encoding/json would prepare all nested types, which takes longer than all other work on an event.
func exactly(raw json.RawMessage, v reflect.Value) error {
	t := v.Type()
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()): // a time, or raw JSON
	case t.Kind() == reflect.Pointer && string(raw) != "null":
		v.Set(reflect.New(t.Elem()))
		return exactly(raw, v.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && len(raw) > 0 && raw[0] == '[':
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // raw is valid
		v.Set(reflect.MakeSlice(t, len(items), len(items)))
		for i, item := range items {
			if err := exactly(item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() == reflect.Struct && rawjson.IsObject(raw):
		return membersInto(split(raw), v)
	}
	return json.Unmarshal(raw, v.Addr().Interface())
}

// membersInto decodes the members of an object into the fields of a struct, as exactly does.
func membersInto(members map[string]json.RawMessage, v reflect.Value) error {
	t := v.Type()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		value, ok := members[name]
		if !ok || name == "" || name == "-" {
			continue
		}
		if err := exactly(value, v.Field(i)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// salvagePlain reads the readable parts of an invalid event: its kind, so that only the hooks of
// that kind are treated as failed, and its session.
func salvagePlain(top map[string]json.RawMessage, in Input) *grapnel.Event {
	ev := &grapnel.Event{Agent: grapnel.Agent{Name: text(split(top["agent"])["name"])}}
	if kind := grapnel.Kind(cmp.Or(text(top["kind"]), in.Event)); kind.Known() {
		ev.Kind = kind
	}
	session := split(top["session"])
	ev.Session.ID, ev.Session.CWD = text(session["id"]), text(session["cwd"])
	return ev
}

func writePlainVerdict(_ *EventRow, _ *grapnel.Event, v *grapnel.Verdict) Reply {
	return jsonReply(plainVerdict{Version: PlainVersion, Verdict: v})
}

func writePlainEvent(ev *grapnel.Event) ([]byte, error) {
	return rawjson.Line(plainEvent{PlainVersion, wire.Of(ev)})
}

// readPlainOutcome decides by the exit code first: 0 means that stdout has the answer, 2 is a
// block, and any other code is a failure of the hook. JSON next to a nonzero code is used too, and
// the stricter decision wins.
func readPlainOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	stdout := string(trim(out.Stdout))
	var o grapnel.Outcome
	var bad error
	if !strings.HasPrefix(stdout, "{") {
		bad = hiddenAnswer([]byte(stdout))
	} else {
		raw := json.RawMessage(stdout)
		err := json.Unmarshal(raw, new(json.RawMessage))
		if err == nil {
			err = exactly(raw, reflect.ValueOf(&o).Elem())
		}
		if err != nil {
			o, bad = grapnel.Outcome{}, fmt.Errorf("cannot read its answer: %w", err)
		}
	}
	stderr := strings.TrimSpace(string(out.Stderr))
	switch {
	case out.Exit == 0 && bad != nil:
		return o, bad
	case out.Exit == 0:
		if stdout != "" && !strings.HasPrefix(stdout, "{") {
			plainText(&o, ev, stdout)
		}
		return o, nil
	case out.Exit == 2:
		o.Decision = grapnel.Block
		for _, text := range []string{o.Reason, stderr, stdout} {
			if o.Reason == "" && !strings.HasPrefix(text, "{") {
				o.Reason = text
			}
		}
		return o, nil
	default:
		return o, fmt.Errorf("%s%s", exitText(out.Exit), quoteStderr(stderr))
	}
}

// plainText gives a hook's plain standard output the meaning that the event's Contract defines.
func plainText(o *grapnel.Outcome, ev *grapnel.Event, stdout string) {
	c := contractFor(ev)
	switch {
	case c == nil:
	case c.Stdout == "context":
		o.Context = []string{stdout}
	case c.Stdout == "summary":
		o.Set = map[grapnel.Field]json.RawMessage{grapnel.FieldSummary: rawjson.Quote(stdout)}
	}
}

func exitText(code int) string {
	switch code {
	case -1:
		return "was killed by a signal"
	case 126:
		return "cannot be executed (exit code 126)"
	case 127:
		return "was not found (exit code 127)"
	default:
		return fmt.Sprintf("exit code %d", code)
	}
}

// quoteStderr returns the last lines of a failing hook's stderr for an error message.
func quoteStderr(stderr string) string {
	if stderr == "" {
		return ""
	}
	if len(stderr) > 500 {
		stderr = "…" + strings.ToValidUTF8(stderr[len(stderr)-500:], "")
	}
	return ": " + stderr
}
