package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// If the line writes a file with known text and then runs it, the text is read as code:
//
//	echo 'rm -rf ~' > a.sh; sh a.sh
//
// This only adds commands. Other files are read only if they are in the past of the line, see Past.

// maxWritten is the maximum number of files whose text is remembered.
const maxWritten = 64

// A writtenFile is a file that the line writes.
type writtenFile struct {
	text     string
	computed bool // the text holds computed pieces, as holes
	active   bool // it is being read: a script that runs itself is read once
	earlier  bool // an earlier call of the session wrote it
}

// writtenKey returns the key of a file name in walker.written.
func (w *walker) writtenKey(name string) string { return path.Clean(join(w.dir, name)) }

// keepText records the text that a statement writes to files, by a redirection or tee.
func (w *walker) keepText(st *syntax.Stmt, at *place) {
	call, _ := st.Cmd.(*syntax.CallExpr)
	var operands []Word
	if call != nil && len(call.Args) > 1 {
		args := call.Args
		if args[0].Lit() == "sudo" {
			args = args[1:]
		}
		if args[0].Lit() == "tee" {
			for _, a := range args[1:] {
				operands = w.words(at, a, operands)
			}
		}
	}
	var feed, into []*syntax.Redirect
	for _, r := range st.Redirs {
		switch {
		case (r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrClob) && (r.N == nil || r.N.Value == "1"):
			into = append(into, r)
		default:
			feed = append(feed, r)
		}
	}
	if len(into) == 0 && len(operands) == 0 {
		return
	}
	file, known := w.outputText(&syntax.Stmt{Cmd: st.Cmd, Redirs: feed, Position: st.Position}, call, at)
	for _, r := range into {
		targets, _ := w.targets(at, r.Word)
		for _, target := range targets {
			w.keepFile(target, file, known, r.Op == syntax.AppOut)
		}
	}
	appends := slices.ContainsFunc(operands, func(a Word) bool { return a.Literal && (a.Text == "-a" || a.Text == "--append") })
	for _, a := range operands {
		if !strings.HasPrefix(a.Text, "-") {
			w.keepFile(a, file, known, appends)
		}
	}
}

// keepDescriptors records the text that a statement gives to its command on other descriptors than
// standard input: bash /dev/fd/3 3<<< line.
func (w *walker) keepDescriptors(st *syntax.Stmt, at *place) {
	for _, r := range st.Redirs {
		if (r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc) && r.N != nil && r.N.Value != "0" {
			text, whole := w.given(at, r)
			w.keep("/dev/fd/"+r.N.Value, writtenFile{text: text, computed: !whole})
		}
	}
}

// outputText returns the output of a statement, if it is known but for computed pieces of a
// here-document.
func (w *walker) outputText(st *syntax.Stmt, call *syntax.CallExpr, at *place) (file writtenFile, known bool) {
	if call != nil && len(call.Args) > 0 && has("cat tee", call.Args[0].Lit()) {
		for _, r := range slices.Backward(st.Redirs) {
			if feeds(r) {
				text, whole := w.given(at, r)
				return writtenFile{text: text, computed: !whole}, text != ""
			}
		}
	}
	in := ""
	if at.from != nil {
		in, _ = w.evalStmt(at.from, at, "")
	}
	text, known := w.evalStmt(st, at, in)
	return writtenFile{text: text}, known
}

// isDevice reports whether a name is one of a device, not of a file.
func isDevice(name string) bool {
	return strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/dev/shm/")
}

// keepFile records the text of one file. A file with unknown text is forgotten.
func (w *walker) keepFile(name Word, file writtenFile, known, appends bool) {
	text, ok := knownText(name)
	if !ok || text == "" || isDevice(text) {
		return
	}
	key := w.writtenKey(text)
	old := w.written[key]
	switch {
	case !known && !appends:
		delete(w.written, key)
	case known:
		if appends && old != nil {
			file.text, file.computed = old.text+file.text, old.computed || file.computed
		}
		w.keep(key, file)
	}
}

// keep records a file with known text, up to the limits.
func (w *walker) keep(key string, file writtenFile) {
	switch {
	case len(file.text) > maxCode:
	case w.written[key] == nil && len(w.written) >= maxWritten:
		w.limited("unparsable: too many files")
	default:
		if w.written == nil {
			w.written = map[string]*writtenFile{}
		}
		w.written[key] = &file
	}
}

// transfers handles "mv a.sh b.sh", "cp a.sh b.sh" and "install -m 755 a.sh b" of a file that the
// line or its past wrote.
func (w *walker) transfers(name string, args []Word) {
	texts := make([]string, 0, 2)
	s := scanner{rows: []*program{lookup(name)}, args: args, late: true}
	for s.scan() {
		if text, ok := knownText(s.word); ok && s.kind == operand {
			texts = append(texts, text)
		}
	}
	if len(texts) != 2 {
		return
	}
	files := w.files(w.writtenKey(texts[0]))
	if len(files) == 0 {
		return
	}
	from, to := files[len(files)-1], texts[1]
	if strings.HasSuffix(to, "/") || to == "." {
		to = strings.TrimSuffix(to, "/") + "/" + path.Base(texts[0])
	}
	w.keep(w.writtenKey(to), writtenFile{text: from.text, computed: from.computed})
}

// wrote reads a file that the line wrote with a function, and reports whether there is one.
func (w *walker) wrote(name Word, read func(text string, computed bool)) bool {
	text, ok := knownText(name)
	if !ok {
		return false
	}
	files := w.files(w.writtenKey(text))
	for _, file := range files {
		if file.active || !w.again() {
			continue
		}
		file.active = true
		// The text may contain values that the line computes while it writes the file. That is
		// usual, and so are computed values in scripts of a project.
		before := w.mild
		w.mild = w.mild || file.computed || file.earlier
		inPast := w.inPast
		w.inPast = w.inPast || file.earlier
		w.runs(file)
		read(file.text, file.computed)
		w.mild, w.inPast, file.active = before, inPast, false
	}
	return len(files) > 0
}

// pythonRunners give a file to Python by its name. Any other program lets the system run it, which without
// a first line "#!" is a script of the shell.
var pythonRunners = []string{"uv run", "pdm run", "rye run"}

// pythonFile reports whether a runner gives a file to Python.
func pythonFile(name string, at place) bool {
	return path.Ext(name) == ".py" && len(at.via) > 0 && slices.Contains(pythonRunners, at.via[len(at.via)-1])
}

// runsWritten handles a program that the line wrote: ./a.sh.
func (w *walker) runsWritten(program Word, args []Word, at place) {
	w.wrote(program, func(text string, computed bool) {
		name := visible(program.Text)
		first, _, _ := strings.Cut(text, "\n")
		language := ""
		switch ending := path.Ext(program.Text); {
		case strings.HasPrefix(first, "#!"):
			language = shebang(first)
		case ending == ".ps1" && w.s.Language == PowerShell:
			w.powerLine(text, at.behind(name))
			return
		case ending == ".bat", ending == ".cmd":
			w.cmdLine(text, at.behind(name))
			return
		case pythonFile(program.Text, at):
			language = "python"
		}
		if language != "" {
			w.code(language, text, computed, name, at.behind(name))
			return
		}
		w.shellFile(text, computed, name, args, at)
	})
}

// shebang returns the language of a script from its first line, or "" for a shell.
func shebang(line string) string {
	words := strings.Fields(line[len("#!"):])
	if len(words) > 1 && programName(words[0]) == "env" {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	if row := rowOf(foldCase(programName(words[0]))); row != nil && row.runs == runsCode {
		return get(row.does, "-")
	}
	return ""
}

// shellFile reads a shell script with its arguments.
func (w *walker) shellFile(text string, computed bool, name string, args []Word, at place) {
	defer w.withArgs(args)()
	in := at.behind(name)
	in.stdin, in.from = nil, nil
	w.nest(text, computed, name, in)
}
