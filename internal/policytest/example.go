package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A draft is an event for a test that could be added, by key.
type draft map[string]string

// draftKeys lists the keys of a draft in the order of a test file.
var draftKeys = []string{"tool", "command", "path", "content", "url", "prompt", "output", "error", "mode", "subagent"}

// example returns a test that would notice a surviving mutant: as YAML if it finds an event that
// the hook and the mutant handle differently, otherwise as a description.
func (p *mutating) example(i int) string {
	mu := &p.mutants[i]
	if mu.hook < 0 {
		return "an event that matches a hook of the pack"
	}
	h := &p.hooks[mu.hook]
	want := fmt.Sprintf("{rule: %s}", quotedWord(h.Name))
	if mu.More {
		want = fmt.Sprintf("{not: {rule: %s}}", quotedWord(h.Name))
	} else if h.Decide != "" {
		want = fmt.Sprintf("{decision: %s, rule: %s}", h.Decide, quotedWord(h.Name))
	}
	// For other hooks a match alone has no effect that a test can check.
	speaks := h.Decide != "" || h.Contain != nil || h.Replace != nil || h.Context != nil || mu.looks()
	if before := p.before[mu.hook]; speaks && h.After == nil && h.Limit == nil && before != nil {
		for _, d := range drafts(h, mu) {
			ev, ok := d.event()
			if !ok {
				continue
			}
			f := &Firing{}
			was := listens(before, ev, f)
			is := no
			if mu.looks() {
				is = listens(p.after[i], ev, f)
			}
			if was != is && was != unknown && is != unknown {
				return fmt.Sprintf("- {%s, want: %s}", d, want)
			}
		}
	}
	if lasts := lasting(h, mu.At); lasts > 0 {
		if !mu.More {
			lasts -= lasts / 60 // the original time has not passed yet, the shorter time has
		}
		return fmt.Sprintf("the event with `later: %v` after the events of `before:`, and want: %s", lasts, want)
	}
	switch {
	case strings.HasPrefix(mu.At, "after"), strings.HasPrefix(mu.At, "limit"):
		return fmt.Sprintf("events, with `before:`, for which %s makes a difference, and want: %s", mu.At, want)
	case mu.At == "":
		return "an event that matches the hook, and want: " + want
	case mu.looks() && !mu.More && strings.HasSuffix(mu.At, "]"):
		return fmt.Sprintf("an event that matches the hook only because of %s, and want: %s", mu.At, want)
	case mu.looks() && mu.More:
		return fmt.Sprintf("an event that only %s excludes, and want: %s", mu.At, want)
	}
	return fmt.Sprintf("an event for which %s makes a difference, and its result", mu.At)
}

// lasting returns the duration that a mutant changed, or 0 if it changed something else.
func lasting(h *policyfile.Hook, changed string) policyfile.Duration {
	switch {
	case changed == "limit.per":
		return h.Limit.Per
	case strings.HasPrefix(changed, "after[") && strings.HasSuffix(changed, ".within"):
		return h.After[numberOf(strings.TrimSuffix(changed, ".within"), "after")].Within
	}
	return 0
}

// drafts returns events that may distinguish a hook from its mutant.
func drafts(h *policyfile.Hook, mu *mutant) []draft {
	var all []draft
	for _, kind := range h.On {
		base := draft{}
		if h.Match != nil {
			base.fill(h.Match, "match", mu.At, kind)
		}
		if len(h.Replace) > 0 {
			i := numberOf(mu.At, "replace")
			base.fill(&policyfile.Match{Text: []policyfile.Pattern{{Text: "/" + h.Replace[min(i, len(h.Replace)-1)].Pattern + "/"}}}, "", "", kind)
		}
		variants := []draft{base}
		for i := range h.Except {
			if at := "except[" + strconv.Itoa(i) + "]"; strings.HasPrefix(mu.At, at) {
				d := maps.Clone(base)
				d.fill(&h.Except[i], at, mu.At, kind)
				variants = append(variants, d)
			}
		}
		if h.Match != nil && h.Match.Not != nil && strings.HasPrefix(mu.At, "match.not") {
			d := maps.Clone(base)
			d.fill(h.Match.Not, "match.not", mu.At, kind)
			variants = append(variants, d)
		}
		for _, d := range slices.Clip(variants) {
			for _, mode := range []string{d["mode"], "plan", ""} {
				for _, other := range []draft{{}, {"tool": "read"}, {"tool": "write"}, {"tool": "edit"}, {"command": "true"}, {"path": "x"}, {"content": "x"}, {"subagent": ""}} {
					v := maps.Clone(d)
					maps.Copy(v, other)
					v["mode"] = mode
					variants = append(variants, v)
				}
			}
		}
		for _, d := range variants {
			if d.finish(kind) {
				all = append(all, d)
			}
		}
	}
	return all
}

// numberOf returns the index of the changed word of a list, or 0 if another list was changed.
func numberOf(changed, list string) int {
	rest, _ := strings.CutPrefix(changed, list+"[")
	i, _ := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	return i
}

// fill makes the event match m. For the changed key it uses the changed word.
func (d draft) fill(m *policyfile.Match, at, changed string, kind grapnel.Kind) {
	set := func(name, key string, words []string, valueOf func(string) string) {
		if len(words) == 0 {
			return
		}
		i := numberOf(changed, at+"."+name)
		if value := valueOf(words[min(i, len(words)-1)]); value != "" {
			d[key] = value
		}
	}
	texts := func(patterns []policyfile.Pattern) (words []string) {
		for _, p := range patterns {
			words = append(words, p.Text)
		}
		return words
	}
	set("tool", "tool", m.Tool, wordOf)
	set("mcp", "tool", m.MCP, func(word string) string { return "mcp__" + wordOf(word) + "__x" })
	set("words", "tool", m.Words, func(phrase string) string { return "mcp__server__" + strings.Join(match.SampleWords(phrase), "_") })
	set("command", "command", m.Command, wordOf)
	switch paths := slices.Concat(m.Writes, m.Path, m.Reads); {
	case slices.Contains(m.Shell, match.ShellRedirection):
		d["command"] = "echo x > " + pathOf(append(paths, "x")[0])
	case len(m.Shell) > 0:
		d["command"] = "$COMMAND x"
		fallthrough
	default:
		set("path", "path", m.Path, pathOf)
		set("reads", "path", m.Reads, pathOf)
		set("writes", "path", m.Writes, pathOf)
	}
	if len(m.Reads) > 0 && d["tool"] == "" {
		d["tool"] = "read"
	}
	set("url", "url", m.URL, wordOf)
	set("host", "url", m.Host, func(word string) string { return "https://" + wordOf(word) + "/" })
	set("content", "content", texts(m.Content), textOf)
	set("prompt", "prompt", texts(m.Prompt), textOf)
	key := map[grapnel.Kind]string{grapnel.PromptBefore: "prompt", grapnel.ToolAfter: "output", grapnel.ToolFailed: "error"}[kind]
	if key == "" {
		key = "content"
	}
	set("text", key, texts(m.Text), textOf)
	set("mode", "mode", m.Mode, wordOf)
	set("subagent", "subagent", m.Subagent, wordOf)
}

// finish adds the keys that an event of this kind requires. It reports whether a test can express
// the event in short form.
func (d draft) finish(kind grapnel.Kind) bool {
	for key, value := range d {
		if value == "" {
			delete(d, key)
		}
	}
	switch kind {
	case grapnel.PromptBefore:
		if d["prompt"] == "" {
			d["prompt"] = "hello"
		}
		for _, key := range []string{"tool", "command", "path", "content", "url"} {
			delete(d, key)
		}
		return true
	case grapnel.ToolAfter:
		if d["output"] == "" {
			d["output"] = "done"
		}
	case grapnel.ToolFailed:
		if d["error"] == "" {
			d["error"] = "failed"
		}
	case grapnel.ToolBefore:
	default:
		return false
	}
	delete(d, "prompt")
	if d["tool"] == "" {
		switch {
		case d["command"] != "", d["url"] != "": // the keys already describe the call
		case d["path"] != "" && d["content"] == "" && kind != grapnel.ToolBefore:
			d["tool"] = "read"
		case d["path"] != "" || d["content"] != "":
			d["tool"] = "write"
		default:
			d["command"] = "true"
		}
	}
	if d["path"] == "" && d["command"] == "" && d["url"] == "" && slices.Contains([]string{"read", "write", "edit"}, d["tool"]) {
		d["path"] = "x"
	}
	return true
}

// event returns the event as Claude Code reports it.
func (d draft) event() (*grapnel.Event, bool) {
	e := &Event{Tool: d["tool"], Mode: d["mode"], Subagent: d["subagent"]}
	for key, to := range map[string]**string{"command": &e.Command, "path": &e.Path, "content": &e.Content, "url": &e.URL, "prompt": &e.Prompt, "error": &e.Error} {
		if value, ok := d[key]; ok {
			*to = &value
		}
	}
	if output, ok := d["output"]; ok {
		e.Output, _ = json.Marshal(output) // marshaling a text cannot fail
	}
	reported, err := e.report(claudeCode(), "/repo", 1)
	if err != nil {
		return nil, false
	}
	return reported.Event, true
}

// String formats the event as a YAML flow mapping, without its braces.
func (d draft) String() string {
	var parts []string
	for _, key := range draftKeys {
		if value, ok := d[key]; ok {
			parts = append(parts, key+": "+quotedWord(value))
		}
	}
	return strings.Join(parts, ", ")
}

// quotedWord returns a text for a flow mapping, quoted if it is more than words.
func quotedWord(text string) string {
	plain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(" -_./", r))
	}) && strings.IndexByte(" -", text[0]) < 0 && text[len(text)-1] != ' '
	if plain && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off"}, strings.ToLower(text)) {
		return text
	}
	b, _ := json.Marshal(text) // marshaling a string cannot fail
	return string(b)
}

// wordOf returns a text that a word of a match matches, or "" if none is found.
func wordOf(word string) string {
	if len(word) > 2 && word[0] == '/' && word[len(word)-1] == '/' && !strings.ContainsAny(word[1:2], "*") {
		return textOf(word)
	}
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		switch c := word[i]; c {
		case '*', '?':
			b.WriteByte('x')
		case '[':
			end := strings.IndexByte(word[i:], ']')
			if end < 2 || word[i+1] == '^' || word[i+1] == '!' {
				return ""
			}
			b.WriteByte(word[i+1])
			i += end
		case '{':
			end := strings.IndexByte(word[i:], '}')
			if end < 0 {
				return ""
			}
			first, _, _ := strings.Cut(word[i+1:i+end], ",")
			b.WriteString(first)
			i += end
		case '\\':
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func pathOf(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		pattern += "x"
	}
	pattern = strings.TrimPrefix(pattern, "**/")
	return wordOf(strings.ReplaceAll(strings.ReplaceAll(pattern, "/**/", "/"), "**", "*"))
}

// textOf returns a text that a pattern matches.
func textOf(pattern string) string {
	if len(pattern) <= 2 || pattern[0] != '/' || pattern[len(pattern)-1] != '/' {
		return pattern
	}
	re, err := syntax.Parse(pattern[1:len(pattern)-1], syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	matched(&b, re)
	return b.String()
}

// matched writes a short text that a part of an expression matches.
func matched(b *strings.Builder, re *syntax.Regexp) {
	const most = 1 << 10
	if b.Len() > most {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		r := re.Rune[0]
		for i := 0; i+1 < len(re.Rune); i += 2 { // prefer a letter, which is easier to read
			for _, nice := range "a0A " {
				if re.Rune[i] <= nice && nice <= re.Rune[i+1] {
					b.WriteRune(nice)
					return
				}
			}
		}
		b.WriteRune(r)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			matched(b, sub)
		}
	case syntax.OpAlternate, syntax.OpCapture, syntax.OpPlus:
		matched(b, re.Sub[0])
	case syntax.OpRepeat:
		for range re.Min {
			matched(b, re.Sub[0])
		}
	default: // parts that match the empty text, and parts that never match
	}
}
