package hookfiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// WithoutComments replaces // and /* */ comments by spaces, so that everything else keeps its line
// and column.
func WithoutComments(data []byte) []byte { return blankComments(data, `"`) }

func withoutJSON5Comments(data []byte) []byte { return blankComments(data, `"'`) }

func blankComments(data []byte, quotes string) []byte {
	out := slices.Clone(data)
	blank := func(from, to int) int {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
		return to - 1
	}
	until := func(from int, end string, including int) int {
		if i := bytes.Index(data[from:], []byte(end)); i >= 0 {
			return from + i + including
		}
		return len(data)
	}
	var inside byte // the closing quote of the current text
	for i := 0; i < len(data); i++ {
		switch rest := data[i:]; {
		case inside != 0 && rest[0] == '\\':
			i++
		case inside != 0:
			if rest[0] == inside {
				inside = 0
			}
		case strings.IndexByte(quotes, rest[0]) >= 0:
			inside = rest[0]
		case bytes.HasPrefix(rest, []byte("//")):
			i = blank(i, until(i, "\n", 0))
		case bytes.HasPrefix(rest, []byte("/*")):
			i = blank(i, until(i+2, "*/", 2))
		}
	}
	return out
}

// FromJSON5 converts JSON5 to JSON and keeps everything in its line. It removes comments and
// trailing commas, and writes names and texts in double quotes. Invalid input stays invalid.
func FromJSON5(data []byte) []byte {
	data = withoutJSON5Comments(data)
	var out []byte
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"' || c == '\'':
			text, end := json5Text(data, i)
			out, i = append(out, text...), end
		case c == ',':
			before, behind := bytes.TrimRight(out, white), bytes.TrimLeft(data[i+1:], white)
			closes := len(behind) > 0 && strings.IndexByte("}]", behind[0]) >= 0
			if !closes || len(before) == 0 || strings.IndexByte("{[,:", before[len(before)-1]) >= 0 {
				out = append(out, c)
			}
			i++
		case strings.IndexByte(json5Word, c) >= 0:
			end := i
			for end < len(data) && strings.IndexByte(json5Word, data[end]) >= 0 {
				end++
			}
			out = append(out, json5Value(data[i:end], data[end:])...)
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

const (
	json5Word = NameChars + "$.+"
	white     = " \t\r\n"
)

// json5Value converts an unquoted word: a name, or a number in a form that JSON does not support.
func json5Value(word, behind []byte) []byte {
	text := string(word)
	if rest := bytes.TrimLeft(behind, white); len(rest) > 0 && rest[0] == ':' {
		return []byte(strconv.Quote(text))
	}
	if json.Valid(word) {
		return word
	}
	number := strings.TrimPrefix(text, "+")
	if name := strings.TrimPrefix(number, "-"); name == "Infinity" || name == "NaN" {
		return []byte("null")
	}
	if n, err := strconv.ParseInt(number, 0, 64); err == nil && strings.Contains(number, "x") {
		return strconv.AppendInt(nil, n, 10)
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && strings.Trim(number, "0123456789.eE+-") == "" {
		return strconv.AppendFloat(nil, f, 'g', -1, 64)
	}
	return word
}

// json5Text converts a quoted text to JSON, and returns where it ends. For each continued line it
// adds a newline after the text, so that later line numbers stay correct.
func json5Text(data []byte, from int) (text []byte, end int) {
	quote, lines := data[from], 0
	text = []byte{'"'}
	for i := from + 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == quote:
			return append(append(text, '"'), strings.Repeat("\n", lines)...), i + 1
		case c == '\n': // only valid after a backslash
			return append(text, c), i + 1
		case c == '\\' && i+1 < len(data):
			i++
			switch escaped := data[i]; {
			case escaped == '\n':
				lines++
			case escaped == '\r':
				if i+1 < len(data) && data[i+1] == '\n' {
					i++
				}
				lines++
			case escaped == 'x':
				text = append(text, `\u00`...)
			case escaped == 'v':
				text = append(text, `\u000b`...)
			case escaped == '0':
				text = append(text, `\u0000`...)
			case strings.IndexByte(`"\/bfnrtu`, escaped) >= 0:
				text = append(text, '\\', escaped)
			default: // any other escaped character is itself
				text = append(text, escaped)
			}
		case c == '"':
			text = append(text, '\\', c)
		default:
			text = append(text, c)
		}
	}
	return text, len(data)
}

// A Reader collects the hooks in the files of one entry.
type Reader struct {
	Found
	Files []File
	Brief bool // see Format.Parse
	At    int  // index of the file that is being read
	full  bool // the limit on hooks is reached
}

// NewReader returns a reader of the files of one entry. See Format.Parse for brief.
func NewReader(files []File, brief bool) *Reader { return &Reader{Files: files, Brief: brief} }

// Open parses a file. If the file has none of the given kinds of value, Open reports it as broken
// and returns nil.
func (r *Reader) Open(i int, data []byte, kinds ...tree.Kind) *tree.Node {
	return r.OpenWith(i, data, tree.ParseJSON, kinds...)
}

// OpenWith does the work of Open with any parser.
func (r *Reader) OpenWith(i int, data []byte, read func([]byte) (*tree.Node, *tree.Error), kinds ...tree.Kind) *tree.Node {
	r.At = i
	root, err := read(data)
	if err == nil && !slices.Contains(kinds, root.Kind) {
		err = &tree.Error{Line: root.Line, Col: root.Col, Msg: fmt.Sprintf("contains %s, not %s", root.Kind, kinds[0])}
	}
	if err != nil {
		r.Broken = append(r.Broken, ErrorIn(r.Files[i].Path, err))
		return nil
	}
	return root
}

func (r *Reader) problem(n *tree.Node, at, hint, format string, args ...any) *policyfile.Error {
	err := &policyfile.Error{File: r.Files[r.At].Path, Msg: at + ": " + fmt.Sprintf(format, args...), Hint: hint}
	if n != nil {
		err.Line, err.Col = n.Line, n.Col
	}
	return err
}

// Fail reports a skipped entry.
func (r *Reader) Fail(n *tree.Node, at, hint, format string, args ...any) {
	r.Errors = append(r.Errors, r.problem(n, at, hint, format, args...))
}

// Note reports an ignored part of an entry.
func (r *Reader) Note(n *tree.Node, at, hint, format string, args ...any) {
	if r.Brief {
		return
	}
	r.Notes = append(r.Notes, r.problem(n, at, hint, format, args...))
}

// MaxTimeout is the maximum plausible timeout; a longer one is probably a mistake.
const MaxTimeout = 24 * time.Hour

// Timeout returns a hook's timeout. It adds a note if it exceeds the agents' time budget, unless
// the hook runs in the background.
func (r *Reader) Timeout(hook, n *tree.Node, at string, d time.Duration) policyfile.Duration {
	if d > dialect.DefaultBudget && !hook.Get("async").IsTrue() {
		r.Note(n, at, "run it in the background if its answer is not needed", "is %v, but all hooks of an event together have %v", d, dialect.DefaultBudget)
	}
	return policyfile.Duration(d)
}

// NearestTools returns a policy match that is at least as wide as a tool pattern and close to it:
// the globs, for unknown tools, and the classes of the system's own tools that the pattern matches.
// nil matches every event; it is returned if no such match exists.
func NearestTools(tools []dialect.ToolRow, matches func(name string) bool, globs []string) *policyfile.Match {
	if slices.Contains(globs, "") {
		return nil // no tool has an empty name
	}
	match := &policyfile.Match{Tool: slices.Clone(globs)}
	for i := range tools {
		switch class := tools[i].Class; {
		case !matches(tools[i].Native) || slices.Contains(match.Tool, string(class)):
		case class == grapnel.ClassOther || class == grapnel.ClassMCP:
			return nil // no class covers the equivalent tools of other agents
		default:
			match.Tool = append(match.Tool, string(class))
		}
	}
	return match
}

// OtherTools reports whether the classes in a list include one of the system's own tools that the
// pattern does not match.
func OtherTools(tools []dialect.ToolRow, matches func(name string) bool, list []string) bool {
	return slices.ContainsFunc(tools, func(t dialect.ToolRow) bool {
		return slices.Contains(list, string(t.Class)) && !matches(t.Native)
	})
}

// WhenCause returns the `when:` of a policy for the causes of an event that a matcher lists. exact are
// the causes that every agent's event has under the same name. It returns "" if a cause is not exact.
func WhenCause(event string, causes, exact []string) string {
	for _, cause := range causes {
		if !slices.Contains(exact, cause) {
			return ""
		}
	}
	if event == "SessionStart" || slices.Contains(causes, "auto") {
		causes = append([]string{""}, causes...) // an event without a cause matches
	}
	quoted := make([]string, len(causes))
	for i, cause := range causes {
		quoted[i] = strconv.Quote(cause)
	}
	if len(causes) == 1 {
		return "cause == " + quoted[0]
	}
	return "cause in [" + strings.Join(quoted, ", ") + "]"
}

// SingleStars replaces each run of stars in a glob by one.
func SingleStars(glob string) string {
	for strings.Contains(glob, "**") {
		glob = strings.ReplaceAll(glob, "**", "*")
	}
	return glob
}

// SearchGlobs converts an unanchored expression to globs if it consists only of names and .*;
// otherwise ok is false.
func SearchGlobs(expression string) (globs []string, ok bool) {
	for part := range strings.SplitSeq(expression, "|") {
		plain := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(part, "^"), "$"), ".*", "*")
		if plain == "" || strings.Trim(plain, NameChars+"*") != "" {
			return nil, false
		}
		if !strings.HasPrefix(part, "^") {
			plain = "*" + strings.TrimLeft(plain, "*")
		}
		if !strings.HasSuffix(part, "$") {
			plain = strings.TrimRight(plain, "*") + "*"
		}
		globs = append(globs, plain)
	}
	return globs, true
}

// MaxHooks is the maximum number of hooks of one entry. They are planned at each event, and
// compared with each other when they are read.
const MaxHooks = 1000

// RunsGrapnel reports whether a command runs Grapnel itself, and counts it.
func (r *Reader) RunsGrapnel(cmd *policyfile.Command) bool {
	own := ownCommand(cmd)
	if own {
		r.Own++
	}
	return own
}

// Add adds a hook, unless it runs Grapnel itself or the limit is reached, and reports whether it did.
func (r *Reader) Add(n *tree.Node, h Hook) bool {
	if r.RunsGrapnel(h.Run) {
		return false
	}
	if len(r.Hooks) == MaxHooks {
		if !r.full {
			r.Fail(n, h.At, "", "is one of more than %d hooks: it and all later hooks are skipped", MaxHooks)
		}
		r.full = true
		return false
	}
	h.FileIndex, h.Line = r.At, n.Line
	if h.Complete != nil && !r.Brief {
		h.Complete(&h)
		h.Complete = nil
	}
	r.Hooks = append(r.Hooks, h)
	return true
}

// TextOf returns the text of a node, or "" if it is nil.
func TextOf(n *tree.Node) string {
	if n == nil {
		return ""
	}
	return n.Text
}

// Drop drops the hooks that were read so far.
func (r *Reader) Drop() { r.Hooks, r.full = nil, false }

// interpreters are programs that run the program named after them.
var interpreters = []string{
	"bash", "bun", "bunx", "cd", "cmd", "deno", "env", "exec", "node", "npx", "perl", "php", "powershell", "pwsh", "py", "python", "python3", "ruby",
	"run", "sh", "sudo", "tsx", "uv", "uvx", "zsh",
}

// maxForeignName is the maximum length of a name that is derived from a command line.
const maxForeignName = 60

// CalledAfter returns a name for a hook without one: the program that its line runs. The name
// identifies the hook in records: check.py for python3 "$DIR/hooks/check.py" --strict.
func CalledAfter(line, otherwise string) string {
	bare := "" // an interpreter, used if nothing follows it
	for word := range strings.FieldsSeq(line) {
		if (word == "-c" || word == "-e") && bare != "" && !strings.HasSuffix(strings.TrimSuffix(bare, ".exe"), "sh") {
			break // code instead of a program
		}
		word = strings.Trim(word, `"'();&|<>`+"`")
		word = strings.TrimRight(word, `/\`)
		if i := strings.LastIndexAny(word, `/\`); i >= 0 {
			word = word[i+1:]
		}
		plain := strings.TrimFunc(word, func(c rune) bool {
			return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
		}) == ""
		switch {
		case word == "" || !plain || strings.HasPrefix(word, "-") || len(word) > maxForeignName:
		case !slices.Contains(interpreters, strings.TrimSuffix(word, ".exe")):
			return word
		case bare == "":
			bare = word
		}
	}
	return cmp.Or(bare, otherwise)
}
