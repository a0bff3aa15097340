package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// limits describe how JSON is shortened. The result is JSON of the same structure, in the same
// order: long texts are cut, and when the total is reached, the rest of each object and array is
// left out. A mark shows both.
type limits struct {
	total int // total bytes
	text  int // bytes of one string
	mask  bool
	also  func(string) string // masks secrets that Mask does not know; nil = none
}

// hide masks the secrets in a text.
func (l limits) hide(text string) string {
	text = Mask(text)
	if l.also != nil {
		text = l.also(text)
	}
	return text
}

// Cut reports whether a stored text contains the mark of a cut, or text that looks like it.
func Cut(text []byte) bool { return bytes.Contains(text, []byte(anyMark)) }

const (
	anyMark  = "… [grapnel: " // begins each mark
	cutMark  = "… [grapnel: %d more bytes cut]"
	restMark = "… [grapnel: the rest was cut]"

	// markRoom is the maximum size of a mark with all open brackets.
	markRoom = 64 + maxDepth

	// slack is how many more bytes of a string are read than kept, so that a secret is recognized
	// even if the cut goes through it.
	slack = 1 << 10

	// maxDepth is the maximum nesting depth of objects and arrays. Deeper JSON is an attack.
	maxDepth = 64
)

// reduce applies the limits. If raw is not valid JSON, the result is not valid either.
func (l limits) reduce(raw []byte) []byte {
	r := reducer{limits: l}
	switch {
	case !l.mask:
	case l.also != nil, len(raw) > 4*l.total: // most of the text will be dropped
		r.secrets, r.names = true, true
	default:
		r.secrets, r.names = secretsIn(unescaped(raw))
	}
	if len(raw) <= l.total && !r.secrets && !r.names && !r.longStrings(raw) {
		return raw
	}
	r.out = make([]byte, 0, min(len(raw), l.total)+markRoom)
	if i := rawjson.SkipSpace(raw, 0); i < len(raw) {
		r.value(raw, i, "", 0)
	}
	return r.out
}

// clip applies the limits to a text that is too long.
func (l limits) clip(text string) string {
	if len(text) <= l.text {
		return text
	}
	window, more := text, 0
	if len(text) > l.text+slack {
		window, more = text[:l.text+slack], len(text)-l.text-slack
	}
	if l.mask {
		window = l.hide(window)
	}
	return cutText(window, l.text, more)
}

// cutText cuts a text between characters and adds how many bytes are missing. more is how many
// were missing before. The result, including the mark, is not longer than limit.
func cutText(text string, limit, more int) string {
	if len(text) <= limit && more == 0 {
		return text
	}
	kept := rawjson.Cut(text, limit-len(cutMark)-18)
	return kept + fmt.Sprintf(cutMark, len(text)-len(kept)+more)
}

// slim returns a copy of an event in which the large parts are already within the limits. This
// avoids encoding megabytes that are dropped afterwards. reduce still applies to the result.
func (l limits) slim(ev *grapnel.Event) *grapnel.Event {
	out := *ev
	l.raw(&out.Native)
	if ev.Tool != nil {
		t := l.tool(*ev.Tool)
		out.Tool = &t
	}
	if len(ev.Calls) > 0 {
		out.Calls = make([]grapnel.Tool, min(len(ev.Calls), 64))
		for i := range out.Calls {
			out.Calls[i] = l.tool(ev.Calls[i])
		}
	}
	if ev.Prompt != nil {
		p := *ev.Prompt
		p.Text, p.System = l.clip(p.Text), l.clip(p.System)
		out.Prompt = &p
	}
	if ev.Message != nil {
		m := *ev.Message
		m.Content = l.clip(m.Content)
		l.raw(&m.Raw)
		out.Message = &m
	}
	if ev.Model != nil {
		m := *ev.Model
		l.raw(&m.Request)
		l.raw(&m.Response)
		out.Model = &m
	}
	if ev.Stop != nil {
		s := *ev.Stop
		s.LastMessage = l.clip(s.LastMessage)
		out.Stop = &s
	}
	if ev.Compact != nil {
		c := *ev.Compact
		c.Instructions, c.Summary = l.clip(c.Instructions), l.clip(c.Summary)
		out.Compact = &c
	}
	return &out
}

func (l limits) tool(t grapnel.Tool) grapnel.Tool {
	l.raw(&t.Input)
	l.raw(&t.Output)
	l.raw(&t.Next)
	t.Content = l.clip(t.Content)
	if len(t.Commands) > 0 {
		commands := make([]string, min(len(t.Commands), 64))
		for i := range commands {
			commands[i] = l.clip(t.Commands[i])
		}
		t.Commands = commands
	}
	return t
}

// raw reduces JSON that is larger than the total limit.
func (l limits) raw(raw *json.RawMessage) {
	if len(*raw) > l.total {
		*raw = l.reduce(*raw)
	}
}

// A reducer copies JSON within limits. Invalid JSON ends the copy.
type reducer struct {
	limits
	secrets bool // there may be secrets
	names   bool // also check the names of members
	out     []byte
	full    bool // there was no room for some value
}

// longStrings reports whether any string is longer than the limit.
func (r *reducer) longStrings(raw []byte) bool {
	if len(raw) <= r.text {
		return false
	}
	for t := range rawjson.Tokens(raw) {
		if t.End-t.Begin-2 > r.text && (t.Kind == '"' || t.Kind == ':') {
			return true
		}
	}
	return false
}

func (r *reducer) room() int { return r.total - len(r.out) - markRoom }

// value copies the value that begins at i, and returns the index after it, or -1. name is the name
// of the member that has this value.
func (r *reducer) value(raw []byte, i int, name string, depth int) int {
	if (raw[i] == '{' || raw[i] == '[') && depth < maxDepth && r.room() > 0 {
		return r.container(raw, i, name, depth)
	}
	end := rawjson.SkipValue(raw, i)
	switch {
	case end < 0:
	case raw[i] == '{' || raw[i] == '[':
		r.out = append(r.out, raw[i])
		r.rest(raw[i] == '{', 0)
		r.out = append(r.out, raw[end-1])
	case raw[i] == '"':
		r.string(raw[i:end], name)
	case end-i > min(400, max(r.room(), 24)): // no field of an event has such a number
		r.out = append(r.out, `"`+restMark+`"`...)
	default:
		r.out = append(r.out, raw[i:end]...)
	}
	return end
}

// container copies an object or array.
func (r *reducer) container(raw []byte, i int, name string, depth int) int {
	object, full := raw[i] == '{', false
	r.out = append(r.out, raw[i])
	var last byte // first byte of the previous value
	end := rawjson.Inside(raw, i, func(key []byte, begin int) int {
		if full = r.room() <= len(key)+8 || len(key) > r.text; full {
			return -1
		}
		if last != 0 {
			r.out = append(r.out, ',')
		}
		if object {
			name, _ = rawjson.Unquote(key)
			r.string(key, "")
			r.out = append(r.out, ':')
		}
		last = raw[begin]
		return r.value(raw, begin, name, depth+1)
	})
	if full {
		r.rest(object, last)
		end = rawjson.SkipValue(raw, i)
	}
	if end >= 0 {
		r.out = append(r.out, raw[end-1])
	}
	return end
}

// rest adds, once, a mark that the rest of an object or array is left out. After an object, the
// mark is an object too, since readers may expect that type.
func (r *reducer) rest(object bool, last byte) {
	if r.full {
		return
	}
	r.full = true
	if last != 0 {
		r.out = append(r.out, ',')
	}
	if object || last == '{' {
		mark := `"…":"` + restMark + `"`
		if !object {
			mark = "{" + mark + "}"
		}
		r.out = append(r.out, mark...)
		return
	}
	r.out = append(r.out, `"`+restMark+`"`...)
}

// string copies a string, including its quotes.
func (r *reducer) string(raw []byte, name string) {
	limit := min(r.text, max(r.room(), 0))
	named := r.names && name != "" && len(raw) > 2 && secretName(name)
	if len(raw)-2 <= limit && !r.secrets && !named {
		r.out = append(r.out, raw...)
		return
	}
	text, more := window(raw, r.text+slack)
	kept := text
	if r.secrets {
		kept = r.hide(text)
	}
	if named {
		kept, more = "***", 0
	}
	if kept == text && more == 0 && len(text) <= r.text && len(raw)-2 <= limit {
		r.out = append(r.out, raw...)
		return
	}
	n := r.text
	quoted := rawjson.Quote(cutText(kept, n, more))
	for len(quoted)-2 > limit && n > 0 { // there is less room, or escapes make it longer
		n /= 2
		quoted = rawjson.Quote(cutText(kept, n, more))
	}
	r.out = append(r.out, quoted...)
}

// window decodes the beginning of a JSON string, and returns how many bytes follow.
func window(raw []byte, size int) (text string, more int) {
	if len(raw)-2 <= size {
		if text, ok := rawjson.Unquote(raw); ok {
			return text, 0
		}
		return "", len(raw)
	}
	// Do not cut through an escape: the longest is a pair of \uXXXX.
	for end := 1 + size; end > 1+size-12 && end > 0; end-- {
		part := append(append(make([]byte, 0, end+1), raw[:end]...), '"')
		if text, ok := rawjson.Unquote(part); ok {
			return strings.TrimRight(text, "\ufffd"), len(raw) - 1 - end // the cut may have gone through a character
		}
	}
	return "", len(raw) - 2
}
