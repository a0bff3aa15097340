package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// What was parsed is kept as text that is read in microseconds: encoding/json first finds
// out what is in a type, which takes longer than most events. A field is its key and its
// items; keys are letters, and those of a part begin with the key of the part. What few
// hooks have is JSON, each of a small type.
const (
	endHook  = "\x1d"
	endField = "\x1e"
	endItem  = "\x1f"
	escape   = "\x1b" // before a letter that stands for one of these
)

var (
	escapes   = [...]string{escape, escape + "e", endHook, escape + "h", endField, escape + "f", endItem, escape + "i"}
	unescapes = [...]string{escape + "e", escape, escape + "h", endHook, escape + "f", endField, escape + "i", endItem}
)

func replaced(text string, pairs []string) string {
	if !strings.ContainsAny(text, escape+endHook+endField+endItem) {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// snapshotWriter writes fields. All but put and command leave out what is empty.
type snapshotWriter struct{ b strings.Builder }

func (w *snapshotWriter) put(key string, items ...string) {
	w.b.WriteString(key)
	for _, item := range items {
		w.b.WriteString(endItem)
		w.b.WriteString(replaced(item, escapes[:]))
	}
	w.b.WriteString(endField)
}

func (w *snapshotWriter) list(key string, items []string) {
	if len(items) > 0 {
		w.put(key, items...)
	}
}

func (w *snapshotWriter) text(key, text string) {
	if text != "" {
		w.put(key, text)
	}
}

func (w *snapshotWriter) number(key string, n int) {
	if n != 0 {
		w.put(key, strconv.Itoa(n))
	}
}

func (w *snapshotWriter) duration(key string, d policyfile.Duration) {
	w.number(key, int(d))
}

func (w *snapshotWriter) flag(key string, set bool) {
	if set {
		w.put(key)
	}
}

func (w *snapshotWriter) json(key string, v any, there bool) {
	if there {
		w.put(key, string(encode(v)))
	}
}

// policy writes a policy: what is not in its hooks, and those.
func (w *snapshotWriter) policy(p *policyfile.Policy) {
	w.number("V", p.Version)
	for i := range p.Use {
		u := &p.Use[i]
		w.put("u", u.Pack.Text, strconv.Itoa(u.Pack.Line), strconv.Itoa(u.Pack.Col), u.Mode)
		for _, except := range u.Except {
			w.word("e", except)
		}
	}
	w.flag("s", p.Strict)
	w.duration("T", p.Defaults.Timeout)
	w.text("E", p.Defaults.OnError)
	rest := restOf(p)
	w.json("j", rest, !reflect.ValueOf(rest).IsZero())
	for i := range p.Hooks {
		w.b.WriteString(endHook)
		w.hook(&p.Hooks[i])
	}
}

// policyRest is what few policies have.
type policyRest struct {
	Pack        *policyfile.PackInfo  `json:",omitempty"`
	Load        []policyfile.LoadFrom `json:",omitempty"`
	Records     *policyfile.Records   `json:",omitempty"`
	Redact      *policyfile.Redact    `json:",omitempty"`
	Secrets     *policyfile.Secrets   `json:",omitempty"`
	Networks    []policyfile.Word     `json:",omitempty"`
	Grants      []policyfile.Grant    `json:",omitempty"`
	Vouches     []policyfile.Vouch    `json:",omitempty"`
	OnlyManaged bool                  `json:",omitempty"`
}

func restOf(p *policyfile.Policy) policyRest {
	return policyRest{p.Pack, p.Load, p.Records, p.Redact, p.Secrets, p.Networks, p.Grants, p.Vouches, p.OnlyManaged}
}

func (r *policyRest) into(p *policyfile.Policy) {
	p.Pack, p.Load, p.Records, p.Redact, p.Secrets = r.Pack, r.Load, r.Records, r.Redact, r.Secrets
	p.Networks, p.Grants, p.Vouches, p.OnlyManaged = r.Networks, r.Grants, r.Vouches, r.OnlyManaged
}

func (w *snapshotWriter) word(key string, word policyfile.Word) {
	w.put(key, word.Text, strconv.Itoa(word.Line), strconv.Itoa(word.Col))
}

func (w *snapshotWriter) hook(h *policyfile.Hook) {
	w.text("n", h.Name)
	w.number("l", h.Line)
	w.kinds("O", h.On)
	w.happening("", h.Match, h.Except, h.When)
	for i := range h.After {
		a := &h.After[i]
		w.put("A")
		w.kinds("Ae", a.Event)
		w.happening("A", a.Match, a.Except, a.When)
		w.duration("Ai", a.Within)
		w.number("At", a.Times)
		w.text("As", a.Same)
		w.list("Ab", a.By)
		if u := a.Until; u != nil {
			w.put("AU")
			w.kinds("AUe", u.Event)
			w.happening("AU", u.Match, u.Except, u.When)
		}
	}
	w.text("M", h.Mode)
	w.text("o", h.OnError)
	if h.Priority != nil {
		w.put("p", strconv.Itoa(*h.Priority))
	}
	w.duration("T", h.Timeout)
	w.text("g", h.Message)
	w.text("I", h.Incident)
	w.text("d", h.Decide)
	w.text("r", h.Reason)
	w.list("v", h.Advice)
	if c := h.Context; c != nil {
		w.put("c", c.Text, c.File)
		w.command("C", c.Run)
	}
	for i := range h.Replace {
		w.put("y", h.Replace[i].Pattern, h.Replace[i].With, h.Replace[i].Literal)
	}
	w.list("k", h.Mask)
	for _, f := range h.Fields {
		w.put("f", string(f))
	}
	w.json("S", h.Set, len(h.Set) > 0)
	w.json("P", h.Places, len(h.Places) > 0)
	w.json("L", h.Limit, h.Limit != nil)
	w.command("R", h.Run)
	if h.HTTP != nil && h.HTTP.Notify {
		w.json("N", h.HTTP, true) // a version that knows of none must not ask
	} else {
		w.json("H", h.HTTP, h.HTTP != nil)
	}
	w.json("B", h.Builtin, h.Builtin != nil)
}

func (w *snapshotWriter) kinds(key string, kinds []grapnel.Kind) {
	for _, k := range kinds {
		w.put(key, string(k))
	}
}

func (w *snapshotWriter) happening(part string, match *policyfile.Match, except []policyfile.Match, when string) {
	if match != nil {
		w.put(part + "m")
		w.match(part+"m", match)
	}
	for i := range except {
		w.put(part + "x")
		w.match(part+"x", &except[i])
	}
	w.text(part+"w", when)
}

func (w *snapshotWriter) match(part string, m *policyfile.Match) {
	for i := range match.Keys {
		k := &match.Keys[i]
		name := part + ":" + string(k.Code)
		if k.Words != nil {
			w.list(name, *k.Words(m))
			continue
		}
		for _, p := range *k.Texts(m) {
			w.put(name, p.Text, p.Literal, p.Near)
		}
	}
	if m.Failed != nil {
		w.put(part+":F", strconv.FormatBool(*m.Failed))
	}
	if m.Not != nil {
		w.put(part + "!")
		w.match(part+"!", m.Not)
	}
}

func (w *snapshotWriter) command(key string, c *policyfile.Command) {
	if c == nil {
		return
	}
	w.put(key, c.Name, c.Line, c.Speaks)
	w.list(key+"a", c.Args)
	w.list(key+"e", c.Env)
	w.flag(key+"w", c.Worker)
	w.flag(key+"b", c.Async)
	w.flag(key+"c", c.Context)
	w.flag(key+"s", c.Asked)
	w.json(key+"S", c.Sandbox, c.Sandbox != nil)
}

// A snapshotField is one field.
type snapshotField struct {
	key   string
	items []string
}

// fields reads all fields of a text, up to the first that is refused.
func fields(text string, read func(snapshotField) error) error {
	for text != "" {
		var field string
		field, text, _ = strings.Cut(text, endField)
		key, rest, has := strings.Cut(field, endItem)
		f := snapshotField{key: key}
		if has {
			f.items = strings.Split(rest, endItem)
			for i := range f.items {
				f.items[i] = replaced(f.items[i], unescapes[:])
			}
		}
		if err := read(f); err != nil {
			return err
		}
	}
	return nil
}

// item returns an item, or "" where there are fewer.
func (f snapshotField) item(i int) string {
	if i < len(f.items) {
		return f.items[i]
	}
	return ""
}

func (f snapshotField) number(into *int) (err error) {
	*into, err = strconv.Atoi(f.item(0))
	return err
}

func (f snapshotField) duration(into *policyfile.Duration) error {
	n, err := strconv.ParseInt(f.item(0), 10, 64)
	*into = policyfile.Duration(n)
	return err
}

func (f snapshotField) flag(into *bool) error { *into = true; return nil }

func (f snapshotField) text(into *string) error { *into = f.item(0); return nil }

func (f snapshotField) list(into *[]string) error { *into = f.items; return nil }

func (f snapshotField) json(into any) error { return json.Unmarshal([]byte(f.item(0)), into) }

func (f snapshotField) word() (w policyfile.Word, err error) {
	w.Text = f.item(0)
	if w.Line, err = strconv.Atoi(f.item(1)); err == nil {
		w.Col, err = strconv.Atoi(f.item(2))
	}
	return w, err
}

var errUnknownField = errors.New("a field of another version")

// begin is the first letter of a key that belongs to a part, and the rest of the key.
func begin(key string) (byte, string) {
	if key == "" {
		return 0, ""
	}
	return key[0], key[1:]
}

// readPolicy is the policy that was written.
func readPolicy(text string) (*policyfile.Policy, error) {
	p := &policyfile.Policy{}
	head, rest, more := strings.Cut(text, endHook)
	if err := fields(head, func(f snapshotField) error { return readPolicyField(p, f) }); err != nil {
		return nil, err
	}
	if more {
		p.Hooks = make([]policyfile.Hook, strings.Count(rest, endHook)+1)
	}
	for i := range p.Hooks {
		var hook string
		hook, rest, _ = strings.Cut(rest, endHook)
		if err := fields(hook, func(f snapshotField) error { return readHookField(&p.Hooks[i], f) }); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func readPolicyField(p *policyfile.Policy, f snapshotField) (err error) {
	switch f.key {
	case "V":
		return f.number(&p.Version)
	case "u":
		use := policyfile.Use{Mode: f.item(3)}
		use.Pack, err = f.word()
		p.Use = append(p.Use, use)
	case "e":
		if len(p.Use) == 0 {
			return errUnknownField
		}
		use := &p.Use[len(p.Use)-1]
		use.Except = append(use.Except, policyfile.Word{})
		use.Except[len(use.Except)-1], err = f.word()
	case "s":
		return f.flag(&p.Strict)
	case "T":
		return f.duration(&p.Defaults.Timeout)
	case "E":
		return f.text(&p.Defaults.OnError)
	case "j":
		var rest policyRest
		err = f.json(&rest)
		rest.into(p)
	default:
		return errUnknownField
	}
	return err
}

func readHookField(h *policyfile.Hook, f snapshotField) error {
	c, part := begin(f.key)
	switch c {
	case 'n':
		return f.text(&h.Name)
	case 'l':
		return f.number(&h.Line)
	case 'O':
		h.On = append(h.On, grapnel.Kind(f.item(0)))
	case 'A':
		f.key = part
		return readAfter(h, f)
	case 'M':
		return f.text(&h.Mode)
	case 'o':
		return f.text(&h.OnError)
	case 'p':
		h.Priority = new(int)
		return f.number(h.Priority)
	case 'T':
		return f.duration(&h.Timeout)
	case 'g':
		return f.text(&h.Message)
	case 'I':
		return f.text(&h.Incident)
	case 'd':
		return f.text(&h.Decide)
	case 'r':
		return f.text(&h.Reason)
	case 'v':
		return f.list(&h.Advice)
	case 'c':
		h.Context = &policyfile.Context{Text: f.item(0), File: f.item(1)}
	case 'C':
		if h.Context == nil {
			h.Context = &policyfile.Context{}
		}
		f.key = part
		return f.command(&h.Context.Run)
	case 'y':
		h.Replace = append(h.Replace, policyfile.Replacement{Pattern: f.item(0), With: f.item(1), Literal: f.item(2)})
	case 'k':
		return f.list(&h.Mask)
	case 'f':
		h.Fields = append(h.Fields, grapnel.Field(f.item(0)))
	case 'S':
		return f.json(&h.Set)
	case 'P':
		return f.json(&h.Places)
	case 'L':
		return f.json(&h.Limit)
	case 'R':
		f.key = part
		return f.command(&h.Run)
	case 'H', 'N':
		return f.json(&h.HTTP)
	case 'B':
		return f.json(&h.Builtin)
	default:
		in := policyfile.Happening{Match: h.Match, Except: h.Except, When: h.When}
		err := readHappeningField(&in, f)
		h.Match, h.Except, h.When = in.Match, in.Except, in.When
		return err
	}
	return nil
}

func readAfter(h *policyfile.Hook, f snapshotField) error {
	if f.key == "" || len(h.After) == 0 {
		h.After = append(h.After, policyfile.After{})
	}
	a := &h.After[len(h.After)-1]
	c, part := begin(f.key)
	switch c {
	case 0:
		return nil
	case 'U':
		if a.Until == nil {
			a.Until = &policyfile.Happening{}
		}
		if f.key = part; part == "" {
			return nil
		}
		return readHappeningField(a.Until, f)
	case 'i':
		return f.duration(&a.Within)
	case 't':
		return f.number(&a.Times)
	case 's':
		return f.text(&a.Same)
	case 'b':
		return f.list(&a.By)
	}
	return readHappeningField(&a.Happening, f)
}

func readHappeningField(h *policyfile.Happening, f snapshotField) error {
	c, part := begin(f.key)
	f.key = part
	switch c {
	case 'e':
		h.Event = append(h.Event, grapnel.Kind(f.item(0)))
		return nil
	case 'w':
		return f.text(&h.When)
	case 'm':
		if h.Match == nil {
			h.Match = &policyfile.Match{}
		}
		return readMatchField(h.Match, f)
	case 'x':
		if part == "" || len(h.Except) == 0 {
			h.Except = append(h.Except, policyfile.Match{})
		}
		return readMatchField(&h.Except[len(h.Except)-1], f)
	}
	return errUnknownField
}

func readMatchField(m *policyfile.Match, f snapshotField) error {
	c, part := begin(f.key)
	switch c {
	case 0:
		return nil
	case '!':
		if m.Not == nil {
			m.Not = &policyfile.Match{}
		}
		f.key = part
		return readMatchField(m.Not, f)
	case ':':
	default:
		return errUnknownField
	}
	for i := range match.Keys {
		k := &match.Keys[i]
		switch {
		case part != string(k.Code):
		case k.Words != nil:
			return f.list(k.Words(m))
		default:
			into := k.Texts(m)
			*into = append(*into, policyfile.Pattern{Text: f.item(0), Literal: f.item(1), Near: f.item(2)})
			return nil
		}
	}
	if part != "F" {
		return errUnknownField
	}
	failed, err := strconv.ParseBool(f.item(0))
	m.Failed = &failed
	return err
}

func (f snapshotField) command(into **policyfile.Command) error {
	if *into == nil {
		*into = &policyfile.Command{}
	}
	c := *into
	switch f.key {
	case "":
		c.Name, c.Line, c.Speaks = f.item(0), f.item(1), f.item(2)
		return nil
	case "a":
		return f.list(&c.Args)
	case "e":
		return f.list(&c.Env)
	case "w":
		return f.flag(&c.Worker)
	case "b":
		return f.flag(&c.Async)
	case "c":
		return f.flag(&c.Context)
	case "s":
		return f.flag(&c.Asked)
	case "S":
		return f.json(&c.Sandbox)
	}
	return errUnknownField
}
