package allow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// stopped returns the event that a grant of the Record is for: the recorded event with the changes
// of hooks. known is false if a part of it cannot be read.
func stopped(e *spool.Entry) (ev *grapnel.Event, known bool) {
	ev, err := replay.Event(e)
	if err != nil {
		return e.Input, false
	}
	for _, field := range e.Changed {
		changed, err := ev.Set(field, e.Changes[field])
		if e.Changes[field] == nil || err != nil {
			return ev, false
		}
		ev = changed
	}
	return ev, true
}

// setText sets the text of the call, and whether that is all of it. Only an equal digest proves
// that: of a masked or cut event, the digest differs.
func (c *Call) setText(ev *grapnel.Event, known bool, store approval.Store) {
	c.Text = text(ev)
	if known && store.Digest(ev) == c.CallDigest {
		return
	}
	raw, err := rawjson.Marshal(ev)
	c.Partly = !known || err != nil || spool.Cut(raw)
	c.Masked = !c.Partly
}

// partly is the error for a call that cannot be shown as a whole.
func (c *Call) partly() error {
	return cli.WithHint(fmt.Errorf("cannot allow this call: the record %s contains only a part of it, so you cannot see all that you would allow", c.ID),
		"ask the agent for shorter calls, or change the hook that stopped this one")
}

// text returns all of an event that its digest covers, except the agent and the directory.
func text(ev *grapnel.Event) string {
	var parts []string
	if t := ev.Tool; t != nil {
		input := approval.Input(t)
		if len(t.Commands)+len(t.Paths)+len(t.URLs) > 0 {
			own := *ev
			own.Native = nil // otherwise it is read again, without the changes
			parts = append(parts, recordview.About(&spool.Entry{Record: grapnel.Record{Input: &own}}, len(input)+len(t.Input)))
		}
		if len(parts) == 0 || !onlyValue(input, parts[0]) {
			parts = append(parts, "input: "+input)
		}
	}
	if p := ev.Prompt; p != nil {
		parts = append(parts, p.Text)
	}
	if m := ev.Message; m != nil {
		if m.Channel != "" {
			parts = append(parts, "channel: "+m.Channel)
		}
		parts = append(parts, m.Content)
	}
	return strings.Join(parts, "\n")
}

// Size returns the size of the text if it may not fit on a screen, or "".
func (c *Call) Size() string {
	lines := strings.Count(c.Text, "\n") + 1
	if lines <= maxLines && len(c.Text) <= maxLines*80 {
		return ""
	}
	return fmt.Sprintf("%s bytes in %s", printable.Number(len(c.Text)), printable.Count(lines, "line"))
}

// maxLines fit on a small screen.
const maxLines = 12

// onlyValue reports whether an object has one member, and a text is its value.
func onlyValue(object, text string) bool {
	var members map[string]string
	if json.Unmarshal([]byte(object), &members) != nil || len(members) != 1 {
		return false
	}
	for _, value := range members {
		return value == text
	}
	return false
}
