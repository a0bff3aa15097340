package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// printJSON writes one value, indented for people, without HTML escapes.
func (c *console) printJSON(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printLine writes one value on one line.
func (c *console) printLine(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// ask puts a question to the person: on stderr where stdout goes elsewhere, or is for
// JSON. Without a terminal nobody is asked and the answer is no.
func (c *console) ask(question string) bool {
	out := c.out
	if c.json || !terminal(out) {
		out = c.err
	}
	if !terminal(c.in) || !terminal(out) {
		return false
	}
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(c.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// plain keeps a text from steering the terminal: what agents and models write is
// part of many lines.
func plain(text string) string { return printable.Text(text) }

// inLine is a text inside of a line, such as a file's or a hook's name: who gave it writes
// no line of their own.
func inLine(text string) string { return printable.Line(text) }

// indent puts a text below what it belongs to.
func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(plain(text), "\n"), "\n", "\n"+by)
}
