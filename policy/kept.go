package policy

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A hook of a pack is kept as text that is read in microseconds: encoding/json first finds
// out what is in a type, which takes longer than most events. A field is its key and its
// items; keys are letters, and those of a part of the hook begin with the key of the part.
const (
	endField = "\x1e"
	endItem  = "\x1f"
	endPart  = "\x1d" // of a pattern
)

// keepText writes a hook, and reports whether it can be written so: its texts may not hold
// what ends them.
func keepText(k *keptHook) (string, bool) {
	w := &keptWriter{}
	w.happening("", k.Match, k.Except, k.When)
	for i := range k.After {
		a := &k.After[i]
		w.put("A")
		w.put("Ae", kindsOf(a.Event)...)
		w.happening("A", a.Match, a.Except, a.When)
		w.put("Ai", time.Duration(a.Within).String())
		w.put("At", strconv.Itoa(a.Times))
		w.some("As", a.Same)
		w.put("Ab", a.By...)
		if u := a.Until; u != nil {
			w.put("AU")
			w.put("AUe", kindsOf(u.Event)...)
			w.happening("AU", u.Match, u.Except, u.When)
		}
	}
	w.some("o", k.OnError)
	w.some("g", k.Message)
	w.some("d", k.Decide)
	w.some("r", k.Reason)
	w.put("v", k.Advice...)
	if k.Context != nil {
		w.put("c", k.Context.Text)
	}
	w.put("k", k.Mask...)
	for _, f := range k.Fields {
		w.put("f", string(f))
	}
	if k.Replace != nil || k.More != "" {
		w.put("j", string(encode(&keptHook{Replace: k.Replace, More: k.More})))
	}
	return w.b.String(), !w.odd
}

type keptWriter struct {
	b   strings.Builder
	odd bool
}

// put writes a field; but for the keys that begin a part, one without items is none.
func (w *keptWriter) put(key string, items ...string) {
	if len(items) == 0 && key != "A" && key != "AU" && !strings.HasSuffix(key, "m") && !strings.HasSuffix(key, "x") {
		return
	}
	w.b.WriteString(key)
	for _, item := range items {
		w.odd = w.odd || strings.ContainsAny(item, endField+endItem)
		w.b.WriteString(endItem)
		w.b.WriteString(item)
	}
	w.b.WriteString(endField)
}

func (w *keptWriter) some(key, text string) {
	if text != "" {
		w.put(key, text)
	}
}

func (w *keptWriter) happening(part string, match *Match, except []Match, when string) {
	if match != nil {
		w.put(part + "m")
		w.match(part+"m", match)
	}
	for i := range except {
		w.put(part + "x")
		w.match(part+"x", &except[i])
	}
	w.some(part+"w", when)
}

func (w *keptWriter) match(part string, m *Match) {
	for key, items := range m.texts() {
		if len(*items) > 0 {
			w.put(part+":"+key, *items...)
		}
	}
	for key, patterns := range m.patterns() {
		var items []string
		for _, p := range *patterns {
			w.odd = w.odd || strings.Contains(p.Text+p.Literal+p.Near, endPart)
			items = append(items, p.Text+endPart+p.Literal+endPart+p.Near)
		}
		if items != nil {
			w.put(part+":"+key, items...)
		}
	}
	if m.Failed != nil {
		w.put(part+":Z", strconv.FormatBool(*m.Failed))
	}
	if m.Not != nil {
		w.put(part+"!", "")
		w.match(part+"!", m.Not)
	}
}

// texts and patterns are the lists of a match, in a fixed order, each with its key.
func (m *Match) texts() func(func(string, *[]string) bool) {
	return func(yield func(string, *[]string) bool) {
		lists := [...]*[]string{&m.Tool, &m.Command, &m.Shell, &m.Path, &m.Reads, &m.Writes, &m.URL, &m.Host, &m.Secret, &m.Agent, &m.MCP, &m.Mode, &m.Subagent}
		for i, list := range lists {
			if !yield("abcdefghijklm"[i:i+1], list) {
				return
			}
		}
	}
}

func (m *Match) patterns() func(func(string, *[]Pattern) bool) {
	return func(yield func(string, *[]Pattern) bool) {
		for i, list := range [...]*[]Pattern{&m.Content, &m.Prompt, &m.Text} {
			if !yield("CPT"[i:i+1], list) {
				return
			}
		}
	}
}

func kindsOf(kinds []grapnel.Kind) []string {
	var words []string
	for _, k := range kinds {
		words = append(words, string(k))
	}
	return words
}

// readKept is the hook that keepText has written.
func readKept(text string) (keptHook, error) {
	var k keptHook
	for text != "" {
		var field string
		field, text, _ = strings.Cut(text, endField)
		key, rest, has := strings.Cut(field, endItem)
		var items []string
		if has {
			items = strings.Split(rest, endItem)
		}
		if err := k.read(key, items); err != nil {
			return k, err
		}
	}
	return k, nil
}

func (k *keptHook) read(key string, items []string) error {
	first := ""
	if len(items) > 0 {
		first = items[0]
	}
	switch key[0] {
	case 'A':
		return k.readAfter(key[1:], items)
	case 'o':
		k.OnError = first
	case 'g':
		k.Message = first
	case 'd':
		k.Decide = first
	case 'r':
		k.Reason = first
	case 'v':
		k.Advice = items
	case 'c':
		k.Context = &struct{ Text string }{first}
	case 'k':
		k.Mask = items
	case 'f':
		k.Fields = append(k.Fields, grapnel.Field(first))
	case 'j':
		return json.Unmarshal([]byte(first), k)
	default:
		h := Happening{Match: k.Match, Except: k.Except, When: k.When}
		h.read(key, items)
		k.Match, k.Except, k.When = h.Match, h.Except, h.When
	}
	return nil
}

func (k *keptHook) readAfter(key string, items []string) (err error) {
	if key == "" {
		k.After = append(k.After, After{})
		return nil
	}
	a := &k.After[len(k.After)-1]
	switch key[0] {
	case 'U':
		if a.Until == nil {
			a.Until = &Happening{}
		}
		if key != "U" {
			a.Until.read(key[1:], items)
		}
	case 'i':
		return a.Within.UnmarshalText([]byte(items[0]))
	case 't':
		a.Times, err = strconv.Atoi(items[0])
	case 's':
		a.Same = items[0]
	case 'b':
		a.By = items
	default:
		a.Happening.read(key, items)
	}
	return err
}

func (h *Happening) read(key string, items []string) {
	var m *Match
	switch key[0] {
	case 'e':
		for _, item := range items {
			h.Event = append(h.Event, grapnel.Kind(item))
		}
		return
	case 'w':
		h.When = items[0]
		return
	case 'm':
		if h.Match == nil {
			h.Match = &Match{}
		}
		m = h.Match
	default:
		if key == "x" {
			h.Except = append(h.Except, Match{})
		}
		m = &h.Except[len(h.Except)-1]
	}
	for key = key[1:]; key != "" && key[0] == '!'; key = key[1:] {
		if m.Not == nil {
			m.Not = &Match{}
		}
		m = m.Not
	}
	if key == "" {
		return
	}
	key = key[1:] // behind the colon
	for name, list := range m.texts() {
		if name == key {
			*list = items
		}
	}
	for name, list := range m.patterns() {
		if name == key {
			for _, item := range items {
				text, told, _ := strings.Cut(item, endPart)
				literal, near, _ := strings.Cut(told, endPart)
				*list = append(*list, Pattern{Text: text, Literal: literal, Near: near})
			}
		}
	}
	if key == "Z" {
		failed := items[0] == "true"
		m.Failed = &failed
	}
}
