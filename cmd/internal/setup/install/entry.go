package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A raw is a JSON value that is written unchanged.
type raw string

// entry returns the handler for an event, from the template Setup.Entry.
func (w Wanted) entry(event string) (any, error) {
	a := w.Agent
	name := event
	if ev := a.event(event); ev != nil {
		name = ev.Native
	}
	ev := a.event(event)
	values := map[string]any{
		"command":    w.Hook.Command(a, name),
		"powershell": w.Hook.powershell(a, name),
		"program":    filepath.ToSlash(w.Hook.Program),
		"args":       w.Hook.args(a, name),
		"timeout":    int64(a.wait(name, w.Timeout, w.Approve) / max(a.Setup.Unit, 1)),
		"event":      name,
		"label":      a.Setup.Label,
	}
	return expand(a.Setup.Entry, values, w.FailClosed && ev != nil && ev.Closed)
}

// expand reads a template of package dialect: JSON in which words like $command outside of
// strings are replaced by values. Members with $closed are included only if closed is set.
func expand(template string, values map[string]any, closed bool) (any, error) {
	var b strings.Builder
	for rest := template; rest != ""; {
		text, err := "", error(nil)
		switch rest[0] {
		case '"':
			end := rawjson.SkipString([]byte(rest), 0)
			if end < 0 {
				end = len(rest)
			}
			text, rest = rest[:end], rest[end:]
		case '$':
			text, rest, err = expandWord(rest, values, closed)
		default:
			text, rest = rest[:1], rest[1:]
		}
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	v, err := hujson.Parse([]byte(b.String()))
	if err != nil {
		return nil, err
	}
	return plainValue(&v, "\x00gone"), nil
}

// gone is the value of a member that is left out. No JSON text that Grapnel writes contains this
// string.
const gone = `"\u0000gone"`

// expandWord splits off the word at the beginning of a template, and returns its value.
func expandWord(template string, values map[string]any, closed bool) (text, rest string, err error) {
	end := 1
	for end < len(template) && template[end] >= 'a' && template[end] <= 'z' {
		end++
	}
	word, rest := template[1:end], template[end:]
	if word != "closed" {
		value, ok := values[word]
		if !ok {
			return "", "", fmt.Errorf("unknown word $%s", word)
		}
		raw, err := json.Marshal(value)
		return string(raw), rest, err
	}
	text = "true"
	if strings.HasPrefix(rest, "(") {
		var ok bool
		if text, rest, ok = strings.Cut(rest[1:], ")"); !ok {
			return "", "", errors.New("$closed( has no end")
		}
	}
	if !closed {
		text = gone
	}
	return text, rest, nil
}

// plainValue converts a parsed value to a value for a field. It leaves out members with the value
// gone.
func plainValue(v *hujson.Value, gone string) any {
	switch v := v.Value.(type) {
	case *hujson.Object:
		fields := []field{}
		for i := range v.Members {
			value := plainValue(&v.Members[i].Value, gone)
			if gone == "" || value != any(gone) {
				fields = append(fields, field{v.Members[i].Name.Value.(hujson.Literal).String(), value})
			}
		}
		return fields
	case *hujson.Array:
		items := list{}
		for i := range v.Elements {
			items = append(items, field{value: plainValue(&v.Elements[i], gone)})
		}
		return items
	case hujson.Literal:
		if v.Kind() == '"' {
			return v.String()
		}
		return raw(v)
	}
	return nil
}

// same reports whether a value of the file equals the wanted one, with members in any order.
func same(v *hujson.Value, want any) bool {
	if v == nil {
		return false
	}
	switch want := want.(type) {
	case []field:
		obj := newObject(v)
		if obj == nil || len(obj.items) != len(want) {
			return false
		}
		for _, f := range want {
			if !same(obj.value(f.key), f.value) {
				return false
			}
		}
		return true
	case list:
		arr := newArray(v)
		if arr == nil || len(arr.items) != len(want) {
			return false
		}
		for i, f := range want {
			if !same(arr.items[i].value, f.value) {
				return false
			}
		}
		return true
	case string:
		return v.Value.Kind() == '"' && v.Value.(hujson.Literal).String() == want
	case raw:
		lit, ok := v.Value.(hujson.Literal)
		return ok && string(lit) == string(want)
	}
	return false
}
