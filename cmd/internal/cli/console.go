// Package cli holds the common parts of grapnel's commands: the console, errors with hints and
// usage errors.
package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/local"
)

// A Console holds the streams of a command, and the flags that all commands have.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	Root     string // --root
	JSON     bool   // --json
}

// Place returns the paths of policy and state for --root.
func (c *Console) Place() (local.Place, error) {
	place, err := local.Locate(c.Root, "")
	if err != nil {
		return place, Usage(err)
	}
	return place, nil
}

// Colors reports whether stdout is a terminal and colors are enabled.
func (c *Console) Colors() bool {
	return Terminal(c.Out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Paint returns a text in a style if colors are enabled.
func (c *Console) Paint(style typeset.Style, text string) string {
	if !c.Colors() {
		return text
	}
	return style.Paint(text)
}

// DecisionStyle returns the style for the word of a decision.
func DecisionStyle(word string) typeset.Style {
	return map[string]typeset.Style{"block": typeset.Red, "halt": typeset.Red, "ask": typeset.Yellow, "allow": typeset.Green}[strings.TrimSpace(word)]
}

// Decision paints the word of a decision.
func (c *Console) Decision(word string) string {
	return c.Paint(DecisionStyle(word), word)
}

// Output is a writer that remembers the first failed write. A command can print many lines
// without checks, and still fails on a full disk.
type Output struct {
	io.Writer
	err error
}

// Failed returns the first error of Write.
func (o *Output) Failed() error { return o.err }

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("cannot print: %w", err)
	}
	return n, err
}

// FileOf returns the file behind a stream, or nil.
func FileOf(stream any) *os.File {
	if o, ok := stream.(*Output); ok {
		stream = o.Writer
	}
	f, _ := stream.(*os.File)
	return f
}

// Terminal reports whether a stream is a terminal.
func Terminal(stream any) bool {
	f := FileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// WorkDir returns the working directory.
func WorkDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", WithHint(fmt.Errorf("cannot find the working directory: %w", err), "change to an existing directory")
	}
	return dir, nil
}

// PrintJSON prints one value as indented JSON that is safe for a terminal.
func (c *Console) PrintJSON(v any) error { return c.print(rawjson.Lines(v)) }

// PrintLine prints one value as JSON on one line, safe for a terminal.
func (c *Console) PrintLine(v any) error { return c.print(rawjson.Line(v)) }

func (c *Console) print(text []byte, err error) error {
	if err == nil {
		_, err = io.WriteString(c.Out, printable.JSON(string(text)))
	}
	return err
}

// Ask asks a yes/no question. Without a terminal it does not ask and returns false.
func (c *Console) Ask(question string) bool {
	answer := c.Prompt(question + " [y/N] ")
	return answer == "y" || answer == "yes"
}

// Prompt asks a question and returns the answer in lower case. Without a terminal it does not ask
// and returns "".
func (c *Console) Prompt(question string) string {
	out := c.Dialog()
	if !Terminal(c.In) || !Terminal(out) {
		return ""
	}
	fmt.Fprint(out, question)
	line, _ := bufio.NewReader(c.In).ReadString('\n')
	return strings.ToLower(strings.TrimSpace(line))
}

// Password asks for a password, which is not shown. It returns an error without a terminal.
func (c *Console) Password(question string) (string, error) {
	if !Terminal(c.In) {
		return "", errors.New("the input is not a terminal")
	}
	fmt.Fprint(c.Err, question)
	password, err := term.ReadPassword(int(FileOf(c.In).Fd()))
	fmt.Fprintln(c.Err)
	return string(password), err
}

// Dialog returns the stream for questions: stderr if stdout is not a terminal or is for JSON.
func (c *Console) Dialog() io.Writer {
	if c.JSON || !Terminal(c.Out) {
		return c.Err
	}
	return c.Out
}

// Path returns a path for output. Below the home directory it begins with ~.
func Path(path string) string {
	home, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && err == nil && filepath.IsAbs(home) {
		path = "~" + string(filepath.Separator) + rest
	}
	return printable.Line(path)
}

// Indent puts by before each line of a text and makes the text safe for a terminal.
func Indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(printable.Text(text), "\n"), "\n", "\n"+by)
}

// Width returns the width of a terminal in characters. If it is unknown, for example of a pipe, it
// returns the value of $COLUMNS, or 80.
func Width(stream any) int {
	if f := FileOf(stream); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return 80
}

// Warn prints, in one line, a problem that does not stop a command.
func (c *Console) Warn(err error) {
	fmt.Fprintf(c.Err, "grapnel: warning: %s\n", printable.Line(strings.ReplaceAll(err.Error(), "\n", "; ")))
}
