package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// output remembers the first write that failed, so that a command may print line after
// line and still never end well with half of them on a full disk.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("cannot print: %w", err)
	}
	return n, err
}

// fileOf is the file behind a stream; nil if there is none.
func fileOf(stream any) *os.File {
	if o, ok := stream.(*output); ok {
		stream = o.Writer
	}
	f, _ := stream.(*os.File)
	return f
}

// terminal reports whether a stream is one that a person looks at.
func terminal(stream any) bool {
	f := fileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// workDir is the directory that the person is in.
func workDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", withHint(fmt.Errorf("cannot find the working directory: %w", err), "go to a directory that is there")
	}
	return dir, nil
}

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
