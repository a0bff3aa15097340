package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"

	"github.com/grapnel-dev/grapnel"
)

// PlainVersion is the version of the plain dialect. Fields may be added within a
// version; readers ignore what they do not know.
const PlainVersion = 1

// plain is Grapnel's own language: the Event, Outcome and Verdict as JSON, one
// object on one line each. Command hooks are written in it, and agents that have no
// language of their own. Its schema is plain.schema.json, beside this file.
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

// plainEvent is an Event on the wire, as it is written.
type plainEvent struct {
	Version int `json:"grapnel"`
	*grapnel.Event
}

// plainVerdict is a Verdict on the wire, with the event as it shall now be left
// to Changes.
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
	if err := exactly(trim(in.Payload), reflect.ValueOf(ev).Elem()); err != nil {
		return nil, err
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
	return ev, nil
}

// exactly reads valid JSON into v: of objects the members that a type names, letter by
// letter, and of equal ones the last. encoding/json would take them in any letter case, and
// merge an object that comes twice. It reads what is no struct; before a struct it would
// prepare all types that this could hold, which takes longer than all else about an event.
func exactly(raw json.RawMessage, v reflect.Value) error {
	t := v.Type()
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()): // a time, or what stays raw
	case t.Kind() == reflect.Pointer && string(raw) != "null":
		v.Set(reflect.New(t.Elem()))
		return exactly(raw, v.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && len(raw) > 0 && raw[0] == '[':
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is valid
		v.Set(reflect.MakeSlice(t, len(items), len(items)))
		for i, item := range items {
			if err := exactly(item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() == reflect.Struct && isObject(raw):
		members := split(raw)
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
	return json.Unmarshal(raw, v.Addr().Interface())
}

// salvagePlain makes out what it can of an event that cannot be read: its kind, so
// that only the hooks of that kind count as failed, and its session.
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
	return say(plainVerdict{Version: PlainVersion, Verdict: v})
}

func writePlainEvent(ev *grapnel.Event) ([]byte, error) {
	return encode(plainEvent{Version: PlainVersion, Event: ev})
}

// readPlainOutcome follows the exit code first: 0 says that stdout counts, 2 that
// it is blocked, anything else that the hook failed. What JSON says beside a
// non-zero code counts too, and the stricter of both wins.
func readPlainOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	stdout := strings.TrimSpace(string(out.Stdout))
	var o grapnel.Outcome
	var bad error
	if strings.HasPrefix(stdout, "{") {
		raw := json.RawMessage(stdout)
		err := json.Unmarshal(raw, new(json.RawMessage))
		if err == nil {
			err = exactly(raw, reflect.ValueOf(&o).Elem())
		}
		if err != nil {
			o, bad = grapnel.Outcome{}, fmt.Errorf("cannot read its answer: %w", err)
		}
	}
	said := strings.TrimSpace(string(out.Stderr))
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
		for _, text := range []string{o.Reason, said, stdout} {
			if o.Reason == "" && !strings.HasPrefix(text, "{") {
				o.Reason = text
			}
		}
		return o, nil
	default:
		return o, fmt.Errorf("%s%s", exitText(out.Exit), quoteSaid(said))
	}
}

// plainText gives the plain standard output of a hook the meaning that the event's
// Contract names.
func plainText(o *grapnel.Outcome, ev *grapnel.Event, stdout string) {
	c := ev.Contract // a native event brings its own
	if !ev.Kind.Native() {
		c = contractOf(ev.Kind)
	}
	switch {
	case c == nil:
	case c.Stdout == grapnel.StdoutContext:
		o.Context = []string{stdout}
	case c.Stdout == grapnel.StdoutSummary:
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

// quoteSaid appends the last lines of what a failing hook wrote to stderr.
func quoteSaid(said string) string {
	if said == "" {
		return ""
	}
	if len(said) > 500 {
		said = "…" + strings.ToValidUTF8(said[len(said)-500:], "")
	}
	return ": " + said
}
