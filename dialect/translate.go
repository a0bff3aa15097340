package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A hook program may use another dialect than the agent that sent the event. The code below
// translates between two tables of tools: it renames tools and members of their inputs, and keeps
// the values.

// entry is one member of an object.
type entry struct {
	name  string
	value json.RawMessage
}

// members is an object that keeps the order of its members.
type members []entry

// membersOf returns the members of an object. Of duplicate names it keeps the last value.
func membersOf(raw json.RawMessage) members {
	raw = trim(raw)
	if !rawjson.IsObject(raw) {
		return nil
	}
	var m members
	at := make(map[string]int, 16) // by map, because an input may have a million members
	rawjson.Members(raw, func(member rawjson.Member) {
		if i, again := at[member.Name]; again {
			m[i].value = member.Value
			return
		}
		at[member.Name] = len(m)
		m = append(m, entry{member.Name, member.Value})
	})
	return m
}

// byName returns the members as a map, for callers with many lookups.
func (m members) byName() map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(m))
	for _, e := range m {
		values[e.name] = e.value
	}
	return values
}

// find returns the index of a member, or -1.
func (m members) find(name string) int {
	return slices.IndexFunc(m, func(e entry) bool { return e.name == name })
}

func (m members) get(name string) json.RawMessage {
	if i := m.find(name); i >= 0 {
		return m[i].value
	}
	return nil
}

// set replaces or adds a member; a nil value does nothing.
func (m *members) set(name string, value json.RawMessage) {
	if value == nil {
		return
	}
	if i := m.find(name); i >= 0 {
		(*m)[i].value = value
		return
	}
	*m = append(*m, entry{name, value})
}

// text sets a string member; an empty string does nothing.
func (m *members) text(name, s string) {
	if s != "" {
		m.set(name, rawjson.Quote(s))
	}
}

func (m *members) flag(name string, b bool) {
	m.set(name, json.RawMessage(fmt.Sprint(b)))
}

func (m members) raw() json.RawMessage {
	b := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, rawjson.Quote(e.name)...), ':')
		b = append(b, e.value...)
	}
	return append(b, '}')
}

// line returns the object as hook programs receive it: on one line, with a newline.
func (m members) line() ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, m.raw()); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// eventRow returns the row for an event in an agent's table, or an error if the agent has no such
// event.
func eventRow(rows []EventRow, agent string, ev *grapnel.Event) (*EventRow, error) {
	is := func(r *EventRow) bool { return r.Kind == ev.Kind || r.Failed != "" && r.Failed == ev.Kind }
	if d := lookup(dialects, agent); d != nil && ev.Agent.Name == agent {
		// If events share a kind, the payload decides.
		if row := rowNamed(rows, d.namedIn(split(ev.Native))); row != nil && (is(row) || ev.Kind.Native()) {
			return row, nil // the dialect derived a native kind from an event of this name
		}
	}
	for i := range rows {
		if ev.Kind != "" && is(&rows[i]) {
			return &rows[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no event for %s", ErrNoSuchEvent, agent, ev.Kind)
}

// contractFor returns the Contract of an event, which may be nil for a native event.
func contractFor(ev *grapnel.Event) *grapnel.Contract {
	if ev.Kind.Native() {
		if ev.Terms == nil {
			return nil
		}
		return ev.Terms.Contract
	}
	return contractOf(ev.Kind)
}

// contractOf returns the Contract of an event kind, or nil.
func contractOf(kind grapnel.Kind) *grapnel.Contract {
	if c, ok := grapnel.ContractOf(kind); ok {
		return &c
	}
	return nil
}

// toolsOf returns an agent's table of tools.
func toolsOf(agent string) []ToolRow {
	if d := lookup(dialects, agent); d != nil {
		return d.Tools
	}
	return nil
}

// mcpSpelling splits the agent's template for MCP tool names: the text before the server, between
// server and tool, and after the tool. If the template has no server, before is the text before the
// tool.
func mcpSpelling(agent string) (before, between, after string, server bool) {
	spelling := "mcp__{server}__{tool}" // the spelling of most agents
	if d := lookup(dialects, agent); d != nil {
		spelling = cmp.Or(d.MCP, spelling)
	}
	before, rest, server := strings.Cut(spelling, "{server}")
	if !server {
		before, after, _ = strings.Cut(spelling, "{tool}")
		return before, "", after, false
	}
	between, after, _ = strings.Cut(rest, "{tool}")
	return before, between, after, true
}

func spellMCP(agent string, mcp *grapnel.MCP) string {
	before, between, after, server := mcpSpelling(agent)
	if !server {
		return before + mcp.Tool + after
	}
	return before + mcp.Server + between + mcp.Tool + after
}

// splitMCP is the reverse of spellMCP. It splits at the first possible separator between server and
// tool, and returns nil for a name that is not an MCP tool.
func splitMCP(agent, name string) *grapnel.MCP {
	before, between, after, server := mcpSpelling(agent)
	name, begins := strings.CutPrefix(name, before)
	name, ends := strings.CutSuffix(name, after)
	switch {
	case !begins || !ends || name == "" || before+between+after == "":
		return nil
	case !server:
		return &grapnel.MCP{Tool: name}
	}
	splits := splitsOf(name, between, 1)
	if len(splits) == 0 {
		return nil
	}
	return &splits[0]
}

// MCPSplits returns each split of the tool's name into server and tool that the agent's spelling
// permits, if there are several, and t.MCP is only the first of them. It returns nil if t.MCP is
// certain, for example because the payload names the server.
func MCPSplits(agent string, t *grapnel.Tool) []grapnel.MCP {
	const most = 16 // names of servers are short
	before, between, after, _ := mcpSpelling(agent)
	if t.MCP == nil {
		return nil
	}
	splits := splitsOf(strings.TrimSuffix(strings.TrimPrefix(t.Name, before), after), between, most)
	if len(splits) < 2 || splits[0] != *t.MCP {
		return nil
	}
	return splits
}

// MCPName returns the agent's name for a tool of an MCP server. If the name has several splits, it
// does not show the server.
func MCPName(agent string, mcp grapnel.MCP) (name string, shows bool) {
	name = spellMCP(agent, &mcp)
	return name, MCPSplits(agent, &grapnel.Tool{Name: name, MCP: splitMCP(agent, name)}) == nil
}

// splitsOf splits a name at each separator, at most most times.
func splitsOf(name, between string, most int) (splits []grapnel.MCP) {
	for at := 1; between != "" && at < len(name)-len(between) && len(splits) < most; at++ {
		if strings.HasPrefix(name[at:], between) {
			splits = append(splits, grapnel.MCP{Server: name[:at], Tool: name[at+len(between):]})
		}
	}
	return splits
}

func toolNamed(rows []ToolRow, name string) *ToolRow {
	for i := range rows {
		if rows[i].Native == name {
			return &rows[i]
		}
	}
	return nil
}

func (r *ToolRow) like() string { return cmp.Or(r.Like, r.Native) }

// counterpart returns the row of the agent's tool that matches a tool of another agent. own is not
// nil if the tables declare both tools equivalent. Otherwise the class and the known parts of the
// input decide, and row may be nil.
func counterpart(t *grapnel.Tool, from, to []ToolRow) (row, own *ToolRow) {
	row, own = nearest(t, from, to)
	if row != nil && row.As != "" {
		row = toolNamed(to, row.As)
	}
	return row, own
}

func nearest(t *grapnel.Tool, from, to []ToolRow) (row, own *ToolRow) {
	name := t.Name
	if own = toolNamed(from, t.Name); own != nil {
		name = own.like()
	}
	for i := range to {
		if to[i].like() == name && to[i].Class == t.Class {
			return &to[i], own
		}
	}
	var known []grapnel.Field
	for f, n := range map[grapnel.Field]int{
		grapnel.FieldCommand: len(t.Commands), grapnel.FieldPath: len(t.Paths), grapnel.FieldURL: len(t.URLs), grapnel.FieldContent: len(t.Content),
	} {
		if n > 0 {
			known = append(known, f)
		}
	}
	if len(known) == 0 || t.Class == grapnel.ClassOther || t.Class == grapnel.ClassMCP {
		return nil, nil // without known fields, nothing shows that two tools are the same
	}
	for i := range to {
		if to[i].Class != t.Class {
			continue
		}
		covers := func(f grapnel.Field) bool {
			return slices.ContainsFunc(to[i].Facts, func(fact grapnel.Fact) bool { return fact.Field == f })
		}
		if row == nil || !slices.ContainsFunc(known, func(f grapnel.Field) bool { return !covers(f) }) {
			row = &to[i]
			if !slices.ContainsFunc(known, func(f grapnel.Field) bool { return !covers(f) }) {
				break
			}
		}
	}
	return row, nil
}

// toolSubject returns the name that another agent would use for the event's tool.
func toolSubject(ev *grapnel.Event, agent string, tools []ToolRow) string {
	t := ev.Tool
	switch {
	case t == nil:
		return ""
	case ev.Agent.Name == agent:
		return t.Name
	case t.MCP != nil:
		return spellMCP(agent, t.MCP)
	}
	if there, _ := counterpart(t, toolsOf(ev.Agent.Name), tools); there != nil {
		return there.Native
	}
	return t.Name
}

// A rendering is a tool call translated for another agent.
type rendering struct {
	name  string
	input members
	same  bool     // the input is the event's own, not translated
	pairs []pair   // members with a different name in the rendering, including absent members
	made  []string // members that exist only in the rendering: copies of values nested in the input
}

// pair is a member's name in the event and in the rendering.
type pair struct{ own, there string }

// render writes a call of ev as agent would have made it. A member without a counterpart keeps its
// name. If the hook expects one value but the event has several, render returns an error, because
// the hook would check only part of the input.
func render(ev *grapnel.Event, t *grapnel.Tool, agent string) (*rendering, error) {
	r := &rendering{name: t.Name, input: membersOf(t.Input), same: true}
	if ev.Agent.Name == agent {
		return r, nil
	}
	if t.MCP != nil {
		r.name = spellMCP(agent, t.MCP)
		return r, nil
	}
	row, own := counterpart(t, toolsOf(ev.Agent.Name), toolsOf(agent))
	if row == nil {
		return r, nil
	}
	inForm := func(fact grapnel.Fact) bool { return fact.Form != "" }
	if slices.ContainsFunc(row.Facts, inForm) && !slices.ContainsFunc(t.Facts, inForm) {
		return nil, fmt.Errorf("tool %s as %s: there a %s names the files, so a hook would look for the files in it", t.Name, row.Native, seam.FormPatch)
	}
	r.name, r.same = row.Native, false
	if own != nil {
		r.pairMembers(own.Members, row.Members)
	}
	for _, f := range []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent} {
		if err := r.pairFacts(f, t, row); err != nil {
			return nil, fmt.Errorf("tool %s as %s: %w", t.Name, row.Native, err)
		}
	}
	renamed := slices.Clone(r.input)
	taken := make(map[string]bool, len(renamed))
	for i := range renamed {
		name := r.there(renamed[i].name)
		if taken[name] {
			return nil, fmt.Errorf("tool %s as %s: %s is in more than one member of the input", t.Name, row.Native, name)
		}
		renamed[i].name, taken[name] = name, true
	}
	// Drop a pair if another existing member already has the target name.
	pairs := r.pairs[:0]
	for _, p := range r.pairs {
		if r.input.find(p.own) >= 0 || renamed.find(p.there) < 0 {
			pairs = append(pairs, p)
		}
	}
	r.pairs, r.input = pairs, renamed
	return r, nil
}

// pairMembers joins two lists of pairs by the shared names of the equivalent tool.
func (r *rendering) pairMembers(own, there [][2]string) {
	at := func(list [][2]string, i int, name string) string {
		for _, p := range list {
			if p[i] == name {
				return p[1-i]
			}
		}
		return name
	}
	for _, p := range own {
		r.pairs = append(r.pairs, pair{p[0], at(there, 1, p[1])})
	}
	for _, p := range there {
		name, known := at(own, 1, p[1]), false
		for i := range r.pairs {
			known = known || r.pairs[i].own == name
		}
		if !known {
			r.pairs = append(r.pairs, pair{name, p[0]})
		}
	}
}

// pairFacts pairs the members that hold the same field in both tables. Present members come first,
// because older versions of an agent use other names.
func (r *rendering) pairFacts(f grapnel.Field, t *grapnel.Tool, row *ToolRow) error {
	slots := topMembers(row.Facts, f)
	if len(slots) == 0 {
		return nil
	}
	var own, absent []string
	for _, name := range topMembers(t.Facts, f) {
		if r.input.find(name) < 0 {
			absent = append(absent, name)
		} else {
			own = append(own, name)
		}
	}
	own = append(own, absent...)
	values := viewOf(t, f)
	if len(own) > 0 && r.input.find(own[0]) >= 0 || len(values) == 0 {
		for i := range min(len(own), len(slots)) {
			r.pairs = append(r.pairs, pair{own[i], slots[i]})
		}
		return nil
	}
	value := values[0]
	if len(values) > 1 {
		switch f {
		case grapnel.FieldCommand: // the commands run one after the other
			value = strings.Join(values, "\n")
		default:
			return fmt.Errorf("it has %d values for %s, but the other agent's tool accepts one", len(values), f)
		}
	}
	if r.input.find(slots[0]) >= 0 {
		return fmt.Errorf("%s is in more than one member of the input", slots[0])
	}
	r.input = append(slices.Clone(r.input), entry{slots[0], rawjson.Quote(value)})
	r.made = append(r.made, slots[0])
	return nil
}

// topMembers lists the top-level members of an input that hold a field as plain text.
func topMembers(facts []grapnel.Fact, f grapnel.Field) []string {
	var names []string
	for _, fact := range facts {
		if name, ok := strings.CutPrefix(fact.At, "/"); ok && fact.Field == f && fact.Form == "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// viewOf returns the values of a field in a call.
func viewOf(t *grapnel.Tool, f grapnel.Field) []string {
	switch f {
	case grapnel.FieldCommand:
		return t.Commands
	case grapnel.FieldURL:
		return t.URLs
	case grapnel.FieldPath:
		paths := make([]string, len(t.Paths))
		for i, p := range t.Paths {
			paths[i] = p.Path
		}
		return paths
	case grapnel.FieldContent:
		if t.Content != "" {
			return []string{t.Content}
		}
	default: // no other field is a view of the input
	}
	return nil
}

func (r *rendering) there(own string) string {
	for _, p := range r.pairs {
		if p.own == own {
			return p.there
		}
	}
	return own
}

func (r *rendering) own(there string) (name string, paired bool) {
	for _, p := range r.pairs {
		if p.there == there {
			return p.own, true
		}
	}
	return there, false
}

// change adds a hook's change of the tool input to o. The hook saw the event as agent's dialect
// renders it. If the rendering is the event's own input, the hook's input replaces it as a whole.
// Otherwise each member that differs is a separate change, applied to a field of the event if it
// maps to exactly one. Members that the hook's dialect cannot express, such as the directory of a
// command, stay unchanged. A change without a counterpart is an error.
func change(o *grapnel.Outcome, ev *grapnel.Event, agent string, input json.RawMessage) error {
	if ev.Tool == nil {
		return fmt.Errorf("it changes the input of a tool, and %s has none", ev.Kind)
	}
	r, err := render(ev, ev.Tool, agent)
	if err != nil {
		return err
	}
	if r.same {
		set(o, grapnel.FieldInput, input)
		return nil
	}
	now, before := membersOf(input), r.input.byName()
	var patch members
	for _, e := range now {
		was := before[e.name]
		if was != nil && rawjson.Equal(was, e.value) || was == nil && present(e.value) == nil {
			continue
		}
		own, paired := r.own(e.name)
		switch {
		case slices.Contains(r.made, e.name), was == nil && !paired:
			return fmt.Errorf("it sets %s of %s, which %s of %s does not have", e.name, r.name, ev.Tool.Name, ev.Agent.Name)
		case rawjson.IsObject(e.value):
			return fmt.Errorf("it sets %s of %s to an object, which %s of %s does not accept", e.name, r.name, ev.Tool.Name, ev.Agent.Name)
		}
		if f := viewAt(ev.Tool, own); f != "" && e.value[0] == '"' {
			set(o, f, e.value)
			continue
		}
		patch = append(patch, entry{own, e.value}) // null removes the member
	}
	after := now.byName()
	for _, e := range r.input {
		if after[e.name] != nil {
			continue
		}
		if slices.Contains(r.made, e.name) {
			return fmt.Errorf("it removes %s of %s, which %s of %s does not have", e.name, r.name, ev.Tool.Name, ev.Agent.Name)
		}
		if own, paired := r.own(e.name); paired {
			patch = append(patch, entry{own, json.RawMessage("null")})
		}
	}
	if patch != nil {
		o.Patch = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: patch.raw()}
	}
	return nil
}

// viewAt returns the field that has this member as its only place in the input, or "".
func viewAt(t *grapnel.Tool, name string) grapnel.Field {
	input := membersOf(t.Input)
	for _, f := range []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent} {
		names := topMembers(t.Facts, f)
		names = slices.DeleteFunc(names, func(n string) bool { return input.find(n) < 0 })
		deeper := slices.ContainsFunc(t.Facts, func(fact grapnel.Fact) bool {
			return fact.Field == f && strings.Count(fact.At, "/") != 1
		})
		if !deeper && len(names) == 1 && names[0] == name {
			return f
		}
	}
	return ""
}

func set(o *grapnel.Outcome, f grapnel.Field, value json.RawMessage) {
	if o.Set == nil {
		o.Set = make(map[grapnel.Field]json.RawMessage)
	}
	o.Set[f] = value
}

func native(o *grapnel.Outcome, agent, name string, value json.RawMessage) {
	if value == nil {
		return
	}
	if o.Native == nil {
		o.Native = make(map[string]json.RawMessage)
	}
	o.Native[agent+"."+name] = value
}

// outputText returns the text of a tool's output in any agent's format, or "".
func outputText(output json.RawMessage) string {
	if s, ok := rawjson.Unquote(output); ok {
		return s
	}
	if len(output) > 0 && output[0] == '[' {
		var parts []json.RawMessage
		if json.Unmarshal(output, &parts) != nil {
			return ""
		}
		var texts []string
		for _, part := range parts {
			if s := cmp.Or(text(part), text(split(part)["text"])); s != "" {
				texts = append(texts, s)
			}
		}
		return strings.Join(texts, "\n")
	}
	about := split(output)
	for _, name := range []string{"llmContent", "stdout", "content", "text", "message", "output", "textResultForLlm"} {
		if raw := about[name]; raw != nil && raw[0] != '{' {
			if s := outputText(raw); s != "" {
				return s
			}
		}
	}
	if failure := about["error"]; rawjson.IsObject(failure) {
		return text(split(failure)["message"])
	}
	return text(about["error"])
}

// failure returns the error for a failed hook program.
func failure(out Output) error {
	return fmt.Errorf("%s%s", exitText(out.Exit), quoteStderr(strings.TrimSpace(string(out.Stderr))))
}

// variables returns the pairs with a nonempty value as NAME=value.
func variables(pairs ...[2]string) []string {
	var vars []string
	for _, p := range pairs {
		if p[1] != "" {
			vars = append(vars, p[0]+"="+p[1])
		}
	}
	return vars
}
