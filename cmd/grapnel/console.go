package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
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

// ask puts a question to the person. Without a terminal nobody is asked and the
// answer is no.
func (c *console) ask(question string) bool {
	if !terminal(c.in) || !terminal(c.out) {
		return false
	}
	fmt.Fprintf(c.out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(c.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// indent puts a text below what it belongs to.
func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by)
}
