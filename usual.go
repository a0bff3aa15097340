package grapnel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// usualFacts gives the meaning of string members with these names in the input of a tool that no
// table knows. Without it, rules on commands or paths would miss every tool of an MCP server and
// every tool that an agent adds.
var usualFacts = [...]struct {
	name string
	fact Fact
}{
	{"command", Fact{Field: FieldCommand, At: "/command"}},
	{"cmd", Fact{Field: FieldCommand, At: "/cmd"}},
	{"command_line", Fact{Field: FieldCommand, At: "/command_line"}},
	{"commandLine", Fact{Field: FieldCommand, At: "/commandLine"}},
	{"cmdString", Fact{Field: FieldCommand, At: "/cmdString"}},
	{"cli_command", Fact{Field: FieldCommand, At: "/cli_command"}},
	{"shell_command", Fact{Field: FieldCommand, At: "/shell_command"}},
	{"url", Fact{Field: FieldURL, At: "/url"}},
	{"content", Fact{Field: FieldContent, At: "/content"}},
}

// usualPaths are names of members that hold a path, or a list of paths or of objects with one.
var usualPaths = [...]string{
	"path", "file_path", "filePath", "filepath", "file", "filename", "file_name", "fileName", "uri", "target", "target_file", "target_path", "targetFile",
	"dest", "destination", "dest_path", "destination_path", "src", "source", "source_path", "old_path", "oldPath", "new_path", "newPath",
	"output_file", "output_path", "dir", "directory", "folder", "name",
}

// usualLists are names of members that hold a list of paths, or of objects with one of usualPaths.
var usualLists = [...]string{"paths", "files", "file_paths", "filePaths", "edits", "operations"}

// usualTexts are names of members with the text that is written to one of several files or places.
var usualTexts = [...]string{"content", "newText", "new_string"}

// Words in the names of tools that run something, by its kind.
var (
	runsLines  = []string{"bash", "cmd", "command", "commands", "console", "powershell", "sh", "shell", "ssh", "term", "terminal", "tmux", "zsh"}
	runsNode   = []string{"javascript", "js", "node", "typescript", "ts"}
	runsPython = []string{"ipython", "jupyter", "kernel", "notebook", "python"}
	runsOther  = []string{"code", "eval", "exec", "execute", "interpreter", "repl", "run"}

	// programs are tools that take only the arguments of the program that they are named after.
	programs = []string{"aws", "az", "docker", "flyctl", "gcloud", "gh", "git", "glab", "gsutil", "helm", "heroku", "kubectl", "npm", "oc", "podman", "psql", "terraform"}
)

// usualKeys returns the members that UsualFacts reads.
var usualKeys = sync.OnceValue(func() []rawjson.Key {
	keys := []rawjson.Key{
		{Name: "command", Depth: 1},
		{Name: "cmd", Depth: 1},
		{Name: "command_line", Depth: 1},
		{Name: "commandLine", Depth: 1},
		{Name: "cmdString", Depth: 1},
		{Name: "cli_command", Depth: 1},
		{Name: "shell_command", Depth: 1},
		{Name: "url", Depth: 1},
		{Name: "content", Depth: 1},
		{Name: "args", Depth: 1},
		{Name: "argv", Depth: 1},
		{Name: "code", Depth: 1},
		{Name: "code_snippet", Depth: 1},
		{Name: "python_code", Depth: 1},
		{Name: "commands", Depth: 1},
		{Name: "input", Depth: 1},
		{Name: "keys", Depth: 1},
		{Name: "language", Depth: 1},
		{Name: "script", Depth: 1},
		{Name: "command", Depth: 2},
		{Name: "cmd", Depth: 2},
		{Name: "args", Depth: 2}, // of an object with a program and its arguments
		{Name: "command", Depth: 3},
	}
	for _, name := range usualPaths {
		keys = append(keys, rawjson.Key{Name: name, Depth: 1}, rawjson.Key{Name: name, Depth: 3})
	}
	for _, name := range usualTexts {
		keys = append(keys, rawjson.Key{Name: name, Depth: 3})
	}
	for _, name := range usualLists {
		keys = append(keys, rawjson.Key{Name: name, Depth: 1})
	}
	return keys
})

// FoldKeys is for calls of Go programs, whose encoding/json ignores letter case. It
// gives members the spelling that hooks read, of the Facts or the usual names and at
// these pointers. Call it before Complete. An object with two members that differ
// only in letter case is an error: the call must not run.
func (t *Tool) FoldKeys(at ...string) error {
	var few [8]rawjson.Key
	keys := few[:0]
	if t.Facts == nil {
		keys = slices.Clip(usualKeys()) // no copy, unless there are further places
	}
	for _, pointer := range at {
		keys = appendKeys(keys, pointer)
	}
	for i := range t.Facts {
		keys = appendKeys(keys, t.Facts[i].At)
		if t.Facts[i].Form == seam.FormArgs {
			for _, name := range [...]string{"/command", "/cmd", "/args"} {
				keys = appendKeys(keys, t.Facts[i].At+name)
			}
		}
	}
	input, err := rawjson.Fold(t.Input, keys)
	if err == nil {
		t.Input = input
	}
	return err
}

func appendKeys(keys []rawjson.Key, pointer string) []rawjson.Key {
	for depth := 1; pointer != ""; depth++ {
		var name string
		if name, pointer = splitPointer(pointer); name != "*" {
			keys = append(keys, rawjson.Key{Name: name, Depth: depth})
		}
	}
	return keys
}

// UsualFacts returns the Facts of an unknown tool, by usual names such as command.
func (t *Tool) UsualFacts() []Fact {
	members, object := rawMembers(t.Input)
	if !object {
		return nil
	}
	// A command with its arguments beside it.
	whole := valueOf(members, "args") != nil && argsLine(t.Input, "") != nil
	var facts []Fact
	for i := range usualFacts {
		fact := usualFacts[i].fact
		if _, text := rawString(valueOf(members, usualFacts[i].name)); text && !(whole && fact.Field == FieldCommand) {
			facts = append(facts, fact)
		}
	}
	if whole {
		facts = append(facts, Fact{Field: FieldCommand, Form: seam.FormArgs})
	}
	facts = t.appendPaths(facts, members)
	return append(facts, t.otherCommands(members)...)
}

// appendPaths appends the Facts of paths. A path does not show its use by the tool: it may
// write to it, unless the tool is named after reading.
func (t *Tool) appendPaths(facts []Fact, members []rawjson.Member) []Fact {
	use := Use("")
	add := func(at string) {
		if use == "" {
			use = t.usualUse()
		}
		facts = append(facts, Fact{Field: FieldPath, At: at, Use: use})
	}
	for _, name := range usualPaths {
		text, ok := rawString(valueOf(members, name))
		switch {
		case !ok || name == "name": // alone, it is rarely a path
		case name == "uri" && strings.Contains(text, "://") && !strings.HasPrefix(text, "file:"):
			facts = append(facts, Fact{Field: FieldURL, At: "/uri"})
		default:
			add("/" + name)
		}
	}
	for _, list := range usualLists {
		if !isArray(valueOf(members, list)) {
			continue
		}
		add("/" + list + "/*")
		for _, name := range usualTexts {
			facts = append(facts, Fact{Field: FieldContent, At: "/" + list + "/*/" + name})
		}
		for _, name := range usualPaths {
			add("/" + list + "/*/" + name)
		}
	}
	return facts
}

// Words in the names of tools that only read, and in those that do more.
var (
	readWords  = []string{"cat", "check", "find", "get", "glob", "grep", "head", "info", "inspect", "list", "lookup", "ls", "open", "preview", "read", "search", "show", "stat", "tail", "tree", "view", "watch"}
	writeWords = []string{
		"add", "append", "apply", "change", "copy", "cp", "create", "delete", "download", "edit", "exec", "execute", "export", "generate", "insert", "install", "make", "mkdir", "modify",
		"move", "mv", "note", "patch", "publish", "put", "remove", "rename", "replace", "rm", "run", "save", "set", "store", "sync", "touch", "update", "upload", "write",
	}
)

// usualUse returns the use of the paths in the input of an unknown tool.
func (t *Tool) usualUse() Use {
	words := seam.Words(t.Name)
	if t.MCP != nil {
		words = seam.Words(t.MCP.Tool) // the name of the server is no hint
	}
	if namesAny(words, readWords) && !namesAny(words, writeWords) {
		return UseRead
	}
	return UseWrite
}

// valueOf returns the value of a member, the last one of duplicate keys, or nil.
func valueOf(members []rawjson.Member, key string) json.RawMessage {
	for _, m := range slices.Backward(members) {
		if m.Name == key {
			return m.Value
		}
	}
	return nil
}

// otherCommands returns the Facts of commands in members that are lists, arguments or code.
func (t *Tool) otherCommands(members []rawjson.Member) (facts []Fact) {
	add := func(at, form string) { facts = append(facts, Fact{Field: FieldCommand, At: at, Form: form}) }
	for _, name := range [...]string{"command", "cmd", "argv"} {
		if isArray(valueOf(members, name)) {
			add("/"+name, seam.FormArgs)
		}
	}
	if isArray(valueOf(members, "commands")) {
		add("/commands/*", "")
		add("/commands/*/command", "")
	}
	if _, text := rawString(valueOf(members, "python_code")); text {
		add("/python_code", seam.FormPython)
	}
	args := valueOf(members, "args")
	code := [...]string{"code", "code_snippet"}
	lines := [...]string{"script", "input", "keys"} // other tools have other texts in these members
	absent := func(name string) bool { return valueOf(members, name) == nil }
	if args == nil && !slices.ContainsFunc(slices.Concat(code[:], lines[:]), func(name string) bool { return !absent(name) }) {
		return facts
	}
	words := nameWords(t)
	if i := slices.IndexFunc(words, func(w string) bool { return slices.Contains(programs, w) }); i >= 0 && args != nil && valueOf(members, "command") == nil {
		add("/args", seam.FormArgs+" "+words[i])
	}
	if namesAny(words, runsLines) || words != nil && words[len(words)-1] == "process" { // process_image is about something else
		for _, name := range lines {
			if _, text := rawString(valueOf(members, name)); text {
				add("/"+name, "")
			} else if isArray(valueOf(members, name)) {
				add("/"+name+"/*", "")
			}
		}
	}
	for _, name := range code {
		if _, text := rawString(valueOf(members, name)); text && namesAny(words, runsLines, runsNode, runsPython, runsOther) {
			add("/"+name, codeForm(words, members))
		}
	}
	if _, text := rawString(valueOf(members, "script")); text && namesAny(words, runsNode, runsPython) && !namesAny(words, runsLines) {
		add("/script", codeForm(words, members))
	}
	return facts
}

// nameWords splits the name of a tool, such as run_command or executeCode, into lower-case words.
func nameWords(t *Tool) []string {
	name := t.Name
	if t.MCP != nil {
		name = t.MCP.Server + " " + t.MCP.Tool
	}
	return seam.Words(name)
}

func namesAny(words []string, lists ...[]string) bool {
	return slices.ContainsFunc(lists, func(list []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	})
}

func isArray(value json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) }

// codeForm returns the Form of the code that a tool runs: by the language that the call names, or
// else by the name of the tool. It is Python by default.
func codeForm(words []string, members []rawjson.Member) string {
	language, _ := rawString(valueOf(members, "language"))
	for _, words := range [][]string{{strings.ToLower(language)}, words} {
		switch {
		case namesAny(words, runsPython):
			return seam.FormPython
		case namesAny(words, runsNode):
			return seam.FormNode
		case namesAny(words, runsLines):
			return ""
		}
	}
	return seam.FormPython
}

// argsLine returns a shell line for a program with its arguments: a string or an array of words, or
// an object with a string in command and such arguments in args. It returns nil for other values.
func argsLine(value json.RawMessage, program string) []string {
	members, object := rawMembers(value)
	if object {
		value = nil
		for _, m := range members {
			switch m.Name {
			case "command", "cmd":
				program, _ = rawString(m.Value)
			case "args":
				value = m.Value
			}
		}
		if program == "" || value == nil {
			return nil
		}
		members, _ = rawMembers(value)
	}
	words := wordsOf(members)
	if text, ok := rawString(value); ok {
		words = []string{text}
	}
	if program != "" {
		words = slices.Insert(words, 0, program)
	}
	if len(words) == 0 {
		return nil
	}
	return []string{strings.Join(words, " ")}
}

// wordsOf quotes the strings in an array for a shell.
func wordsOf(elements []rawjson.Member) (words []string) {
	for _, m := range elements {
		if text, ok := rawString(m.Value); ok {
			words = append(words, shellWord(text))
		}
	}
	return words
}

// shellWord quotes a word for a shell. A tilde stays, because tools often expand it.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=@%+,~", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// codeLines returns the shell lines that do the same as code: the lines after "!" in a notebook,
// and the interpreter with the rest of the code.
func codeLines(form, code string) []string {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(code), "%%bash"); ok {
		return []string{rest}
	}
	var lines, rest []string
	for line := range strings.Lines(code) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "!") {
			lines = append(lines, strings.TrimLeft(text, "!"))
		} else {
			rest = append(rest, line)
		}
	}
	if text := strings.Join(rest, ""); strings.TrimSpace(text) != "" {
		program := map[string]string{seam.FormPython: "python3 -c ", seam.FormNode: "node -e "}[form]
		lines = append(lines, program+shellWord(text))
	}
	return lines
}
