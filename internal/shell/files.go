package shell

import (
	"slices"
	"strings"
)

// Use is what a command does with a file.
type Use string

// The uses of a file.
const (
	UseRead    Use = "read"
	UseWrite   Use = "write" // creates, changes, overwrites
	UseDelete  Use = "delete"
	UseExecute Use = "execute"
	UseAny     Use = "any" // it is named, and for what is not known
)

// A File is one that a command names.
type File struct {
	Path string // as it is written, quotes folded, below Command.Dir if that is known; ~ is the home directory
	Use  Use
	Glob bool // it holds an unquoted wildcard
}

// maxFiles bounds the files of one command.
const maxFiles = 8192

// Files are those of a command of the script, as [Command.Files] tells, which is asked once.
func (s *Script) Files(i int) []File {
	s.filesLock.Lock()
	defer s.filesLock.Unlock()
	if s.files == nil {
		s.files = make([]foundFiles, len(s.Commands))
	}
	if f := &s.files[i]; !f.known {
		f.known, f.files = true, s.Commands[i].Files()
	}
	return s.files[i].files
}

type foundFiles struct {
	known bool
	files []File
}

// Files lists the files that a command names: in its redirections, and as far as
// the table tells which of its words are files. Of a program that is not in the
// table those words count that look like a path, for any use. Words that are
// computed are left out, but for what begins with the home or the working
// directory.
func (c *Command) Files() []File {
	row := rowOf(c.key)
	if row == nil {
		row = anyProgram
	}
	f := fileScan{Command: c, files: slices.Clip(c.files)}
	rows := row.path(c.Args)
	last := rows[len(rows)-1]
	if last.files == "" && (row.wraps() || last.wraps()) {
		return f.files
	}
	f.row = last
	f.scan(rows)
	return f.files
}

type fileScan struct {
	*Command

	row   *program
	files []File
	below string // an option such as git -C
}

// add notes a file.
func (f *fileScan) add(path string, use Use, glob bool) {
	if path == "" || path == "-" || len(f.files) >= maxFiles || strings.IndexByte(path, 0) >= 0 {
		return
	}
	if strings.Contains(path, "://") && !strings.HasPrefix(path, "file:") {
		return
	}
	dir := f.Dir
	if f.below != "" {
		dir = join(dir, f.below)
	}
	f.files = append(f.files, File{Path: join(dir, path), Use: use, Glob: glob})
}

func (f *fileScan) scan(rows []*program) {
	args := f.Args
	if f.key == "tar" && len(args) > 0 && args[0].Literal && letters(args[0].Text) && args[0].Text != "" && args[0].Text[0] != '-' { // tar czf
		args = slices.Clone(args)
		args[0].Text = "-" + args[0].Text
	}
	s := scanner{rows: rows, args: args, late: true}
	type place struct {
		word Word
		n    int
	}
	var operands []place
	instead, target := false, false
	list := f.row.files
	unless, unlessLast := get(list, "unless"), get(list, "unless$")
	skip := len(rows) - 1
	for s.scan() {
		switch s.kind {
		case option:
			o := f.row.full(s.name, s.short)
			if among(unless, o) {
				instead = true
			}
			if among(unlessLast, o) {
				target = true
			}
			use := get(list, o)
			if use == "" {
				use = get(rows[0].files, o)
			}
			switch {
			case !s.valued:
			case use == "D":
				if text, ok := knownText(s.value); ok {
					f.below = text
				}
			case use != "":
				f.use(use, s.value, s.short)
			default:
				f.guess(s.value, s.short)
			}
		case operand, open:
			if skip > 0 {
				skip--
				continue
			}
			operands = append(operands, place{s.word, len(operands) + 1})
		}
	}
	if list == "" || f.row.wraps() || f.row.runs == runsLine {
		if f.row.wraps() || f.row.runs == runsLine {
			return
		}
		for _, o := range operands {
			f.guess(o.word, false)
		}
		return
	}
	first := get(list, "1")
	for _, o := range operands {
		n := o.n
		if instead {
			n++ // the option has taken the first place
		}
		use := get(list, "*")
		switch {
		case n == 1 && first != "":
			use = first
		case n == 2 && get(list, "2") != "":
			use = get(list, "2")
		case o.n == len(operands) && o.n > 1 && get(list, "$") != "" && !target:
			use = get(list, "$")
		}
		switch {
		case use != "":
			f.use(use, o.word, false)
		case first == "":
			f.guess(o.word, false)
		}
	}
}

// knownText returns the text of a word, if it is known.
func knownText(w Word) (string, bool) {
	if w.Literal {
		return w.Text, true
	}
	return homely(w.Text)
}

// use notes a word by its letter in the table.
func (f *fileScan) use(use string, w Word, short bool) {
	text, ok := knownText(w)
	if !ok {
		return
	}
	switch use {
	case "n":
	case "r":
		f.add(text, UseRead, w.glob)
	case "w":
		f.add(text, UseWrite, w.glob)
	case "d":
		f.add(text, UseDelete, w.glob)
	case "x":
		f.add(text, UseExecute, w.glob)
	case "a":
		f.guess(w, short)
	case "m": // moved
		f.add(text, UseRead, w.glob)
		f.add(text, UseDelete, w.glob)
	case "s": // sed: -i writes
		in := UseRead
		for _, a := range f.Args {
			if strings.HasPrefix(a.Text, "-i") || strings.HasPrefix(a.Text, "--in-place") || len(a.Text) > 2 && a.Text[0] == '-' && a.Text[1] != '-' && strings.Contains(a.Text, "i") && strings.Trim(a.Text[1:], "Ernsuzi") == "" {
				in = UseWrite
			}
		}
		f.add(text, UseRead, w.glob)
		if in == UseWrite {
			f.add(text, UseWrite, w.glob)
		}
	case "P": // perl: -i writes, without -n and -p they are the script's arguments
		in := UseRead
		for _, a := range f.Args {
			if strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.Contains(a.Text, "i") && len(a.Text) < 6 {
				in = UseWrite
			}
		}
		f.add(text, in, w.glob)
		if in == UseWrite {
			f.add(text, UseRead, w.glob)
		}
	case "A": // awk: NAME=value is an assignment
		if !isAssignment(text) {
			f.add(text, UseRead, w.glob)
		}
	case "@": // curl -d @file, name@file
		if _, path, ok := strings.Cut(text, "@"); ok && !strings.ContainsAny(path, " \n") {
			f.add(path, UseRead, w.glob)
		}
	case "b": // curl -b: text with a =, or a file
		if !strings.Contains(text, "=") {
			f.add(strings.TrimPrefix(text, "@"), UseRead, w.glob)
		}
	case "f", "F": // curl -F name=@file;type=x, name=<file
		_, value, _ := strings.Cut(text, "=")
		if use == "f" && value == "" {
			_, value, _ = strings.Cut(text, "@")
			value = "@" + value
		}
		if len(value) > 1 && (value[0] == '@' || value[0] == '<') {
			for path := range strings.SplitSeq(value[1:], ",") {
				path, _, _ = strings.Cut(path, ";")
				f.add(strings.Trim(path, `"`), UseRead, w.glob)
			}
		}
	case "v": // docker -v a:b, --mount source=a,target=b
		if strings.Contains(text, "=") {
			for part := range strings.SplitSeq(text, ",") {
				if key, path, ok := strings.Cut(part, "="); ok && has("source src", key) {
					f.add(path, UseAny, false)
				}
			}
			return
		}
		if path, _, ok := strings.Cut(text, ":"); ok && strings.ContainsAny(path, "/.~") {
			f.add(path, UseAny, false)
		}
	case "k": // dd if=, of=
		if path, ok := strings.CutPrefix(text, "if="); ok {
			f.add(path, UseRead, w.glob)
		} else if path, ok := strings.CutPrefix(text, "of="); ok {
			f.add(path, UseWrite, w.glob)
		}
	case "p": // openssl -passin file:path
		if path, ok := strings.CutPrefix(text, "file:"); ok {
			f.add(path, UseRead, false)
		}
	case "g": // git show REV:path, or a path
		if _, path, ok := strings.Cut(text, ":"); ok {
			f.add(path, UseRead, false)
		} else {
			f.guess(w, false)
		}
	case "R", "W": // local or host:path
		if i := strings.IndexByte(text, ':'); i > 0 && !strings.Contains(text[:i], "/") {
			return
		}
		if use == "R" {
			f.add(text, UseRead, w.glob)
		} else {
			f.add(text, UseWrite, w.glob)
		}
	case "T": // tar -f: written by -c, else read
		use := UseRead
		for i, a := range f.Args {
			letters := strings.TrimLeft(a.Text, "-")
			if (i == 0 || strings.HasPrefix(a.Text, "-")) && (strings.HasPrefix(a.Text, "--create") || !strings.HasPrefix(a.Text, "--") && strings.ContainsAny(letters, "cru") && letters != text) {
				use = UseWrite
				break
			}
		}
		if !strings.Contains(text, ":") {
			below := f.below // -C does not count for it
			f.below = ""
			f.add(text, use, w.glob)
			f.below = below
		}
	}
}

// guess notes a word that looks like a path.
func (f *fileScan) guess(w Word, short bool) {
	text, ok := knownText(w)
	if !ok || len(text) > 4096 || strings.ContainsAny(text, "\n\x00") {
		return
	}
	if _, value, ok := strings.Cut(text, "="); ok && isAssignment(text) {
		text = value
	}
	text = strings.TrimPrefix(text, "@")
	if text == "" || text == "." || text == ".." || text == "/" && short || strings.Contains(text, "://") && !strings.HasPrefix(text, "file:") {
		return
	}
	rooted := text[0] == '/' || text[0] == '.' || text[0] == '~'
	if !rooted && (strings.IndexByte(text, '/') < 0 || strings.ContainsAny(text, " \t;|&<>(){}\"'`$")) || rooted && strings.ContainsAny(text, "|;(){}") {
		return
	}
	f.add(text, UseAny, w.glob)
}

// URLs lists the addresses that a script names: those that are words of commands
// whose operands are no data, such as those of echo are, and literal ones in code.
func (s *Script) URLs() []string {
	list := slices.Clip(s.urls)
	for i := range s.Commands {
		c := &s.Commands[i]
		switch c.key {
		case "echo", "printf", "grep", "egrep", "fgrep", "rg", "sed", "awk", "test", "[", "sh", "bash", "zsh", "eval", "ag", "ack":
			continue
		}
		git := c.key == "git"
		fetches := false
		switch c.key {
		case "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m":
			fetches = true
		}
		for j, a := range c.Args {
			if git && j > 0 && (c.Args[j-1].Text == "-m" || c.Args[j-1].Text == "--message") {
				continue
			}
			text := a.Text
			if a.c != nil {
				text = a.c.head
			}
			if _, value, ok := strings.Cut(text, "="); ok && strings.HasPrefix(text, "-") {
				text = value
			}
			if address(text) {
				list = append(list, text)
				continue
			}
			switch {
			case strings.HasPrefix(a.Text, "-") || !a.Literal || strings.ContainsAny(text, " \t\n"):
			case fetches && j > 0 && curlValue(c.Args[j-1].Text):
			case fetches && (strings.Contains(text, ".") && !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "localhost")):
				list = append(list, "http://"+text)
			case git || c.key == "scp" || c.key == "rsync" || c.key == "sftp":
				if host, path, ok := strings.Cut(text, ":"); ok && host != "" && path != "" && !strings.ContainsAny(host, "/\\=") && (!git || strings.Contains(host, "@") || strings.Contains(host, ".")) {
					list = append(list, "ssh://"+host+"/"+strings.TrimLeft(path, "/"))
				}
			case c.key == "ssh" || c.key == "nc" || c.key == "ncat" || c.key == "netcat" || c.key == "telnet" || c.key == "ftp":
				if strings.Contains(text, ".") || strings.Contains(text, "@") {
					list = append(list, "ssh://"+text)
				}
			}
		}
	}
	return list
}

// curlValue reports an option whose argument is no address.
func curlValue(text string) bool {
	if len(text) < 2 || text[0] != '-' || text == "--url" {
		return false
	}
	row := lookup("curl")
	if text[1] == '-' {
		return has(row.args, text[2:])
	}
	return has(row.args, text[len(text)-1:])
}

// address reports text with the scheme of an address.
func address(text string) bool {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || rest == "" || strings.ContainsAny(scheme, " \t\n") {
		return false
	}
	switch strings.ToLower(scheme[strings.LastIndexByte(scheme, '+')+1:]) {
	case "http", "https", "ftp", "ftps", "ssh", "git", "sftp", "ws", "wss", "s3", "gs", "rsync", "scp", "ldap", "gopher", "tftp", "dict", "telnet", "smb":
		return true
	}
	return false
}
