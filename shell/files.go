package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Use is the use that a command makes of a file.
type Use string

// The uses of a file.
const (
	UseRead    Use = "read"
	UseWrite   Use = "write" // creates, changes, overwrites
	UseDelete  Use = "delete"
	UseExecute Use = "execute"
	UseAny     Use = "any" // the command names the file; the use is not known
)

// A File is a file that a command names.
type File struct {
	Path string // as written, quotes resolved, joined to Command.Dir if that is known; ~ is the home directory
	Use  Use
	Glob bool // the path has an unquoted wildcard
}

// maxFiles limits the files of one command.
const maxFiles = 8192

// Files returns the files of s.Commands[i], like [Command.Files]. It computes them only once.
func (s *Script) Files(i int) []File {
	s.filesLock.Lock()
	defer s.filesLock.Unlock()
	return s.found(i).files
}

// Place returns the directory in which s.Commands[i] works, relative to the start of the line: "" or the
// directory of an option such as make -C.
func (s *Script) Place(i int) string {
	s.filesLock.Lock()
	defer s.filesLock.Unlock()
	return s.found(i).place
}

// found needs the lock.
func (s *Script) found(i int) *foundFiles {
	if s.files == nil {
		s.files = make([]foundFiles, len(s.Commands))
	}
	f := &s.files[i]
	if !f.known {
		f.known = true
		f.files, f.place = s.Commands[i].filesAndPlace()
	}
	return f
}

type foundFiles struct {
	known bool
	files []File
	place string
}

// Copies returns the sources and targets that s.Commands[i] copies or unpacks.
func (s *Script) Copies(i int) (copies []Move) {
	c := &s.Commands[i]
	if !has("cp install rsync tar bsdtar unzip 7z gunzip bunzip2 unxz unzstd dd copy-item expand-archive ditto", c.key) {
		return nil
	}
	var from, to []string
	for _, f := range s.Files(i) {
		switch {
		case f.Glob:
		case f.Use == UseRead:
			from = append(from, f.Path)
		case f.Use == UseWrite:
			to = append(to, f.Path)
		}
	}
	if len(to) == 0 {
		to = []string{cmp.Or(s.Place(i), ".")}
	}
	for _, a := range from {
		for _, b := range to {
			if a != b && len(copies) < maxCopies {
				copies = append(copies, Move{From: a, To: b})
			}
		}
	}
	return copies
}

// maxCopies limits the copies of one command.
const maxCopies = 64

// Files lists the files that a command names in its redirections and in its words. The table defines
// which words of a program are files. For a program that is not in the table, every word that
// looks like a path is a file with the use UseAny. Computed words are left out, except for words
// that begin with the home or the working directory.
func (c *Command) Files() []File {
	files, _ := c.filesAndPlace()
	return files
}

func (c *Command) filesAndPlace() (files []File, place string) {
	row := rowOf(c.key)
	if row == nil {
		row = anyProgram
	}
	f := fileScan{Command: c, files: slices.Clip(c.files)}
	rows := row.path(c.Args)
	last := rows[len(rows)-1]
	if last.files == "" && (row.wraps() || last.wraps()) {
		return f.files, c.Dir
	}
	f.row = last
	f.scan(rows)
	switch {
	case has("wget curl aria2c", c.key):
		f.downloads(rows)
	case has("git gh glab", c.key):
		f.clone()
	}
	if f.below == "" {
		return f.files, c.Dir
	}
	place = join(c.Dir, f.below)
	if has("tar bsdtar", c.key) && slices.ContainsFunc(c.Args, extracts) {
		f.files = append(f.files, File{Path: place, Use: UseWrite})
	}
	return f.files, place
}

// clone records the directory of a clone, which has the name of its address: git clone https://host/x.git
// writes x.
func (f *fileScan) clone() {
	at := slices.IndexFunc(f.Args, func(w Word) bool { return w.Literal && w.Text == "clone" })
	if at < 0 || f.key == "git" && at > 2 || f.key != "git" && (at != 1 || f.Args[0].Text != "repo") {
		return
	}
	for i, w := range f.Args[at+1:] {
		text, ok := knownText(w)
		if !ok || strings.HasPrefix(text, "-") || !strings.ContainsAny(text, "/:") {
			continue
		}
		name := path.Base(strings.TrimSuffix(strings.TrimRight(text, "/"), ".git"))
		name = name[strings.LastIndexByte(name, ':')+1:]
		if rest := f.Args[at+1+i+1:]; len(rest) > 0 && rest[0].Literal && !strings.HasPrefix(rest[0].Text, "-") {
			name = rest[0].Text
		}
		if !slices.ContainsFunc(f.files, func(file File) bool { return file.Path == name && file.Use == UseWrite }) {
			f.add(name, UseWrite, false)
		}
		return
	}
}

// downloads records the files that a download names after its addresses: wget https://host/x.sh
// writes x.sh.
func (f *fileScan) downloads(rows []*program) {
	s := scanner{rows: rows, args: f.Args, late: true}
	dir, named := "", f.key != "curl" // curl needs -O
	var names []string
	for s.scan() {
		text, known := knownText(s.word)
		switch {
		case s.kind != option && known && (f.key == "wget" || strings.Contains(text, "://")):
			text, _, _ = strings.Cut(text, "?")
			text, _, _ = strings.Cut(text, "#")
			_, host, _ := strings.Cut(text, "://")
			if i := strings.LastIndexByte(text, '/'); i >= 0 && strings.Contains(cmp.Or(host, text), "/") && i < len(text)-1 {
				names = append(names, text[i+1:])
			}
		case s.kind != option:
		default:
			switch o := f.row.full(s.name, s.short); {
			case has("output-document O o output out", o) && s.valued:
				return
			case f.key == "curl" && has("O remote-name remote-name-all", o):
				named = true
			case has("P directory-prefix output-dir d dir", o) && s.valued && (f.key != "curl" || o == "output-dir"):
				dir, _ = knownText(s.value)
			}
		}
	}
	for _, name := range names {
		if named {
			f.add(join(dir, name), UseWrite, false)
		}
	}
}

type fileScan struct {
	*Command

	row   *program
	files []File
	below string // directory from an option such as git -C
}

// add records a file.
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
	operands, instead, target := f.options(rows)
	switch {
	case f.row.wraps() || f.row.runs == runsLine:
	case f.row.files != "":
		f.operands(operands, instead, target)
	default:
		for _, word := range operands {
			f.guess(word, false)
		}
	}
}

// options records the files of options and returns the operands. instead reports that an option
// replaced the first operand, target that an option replaced the last one.
func (f *fileScan) options(rows []*program) (operands []Word, instead, target bool) {
	args := f.Args
	if f.key == "tar" && len(args) > 0 && args[0].Literal && letters(args[0].Text) && args[0].Text != "" && args[0].Text[0] != '-' { // tar czf
		args = slices.Clone(args)
		args[0].Text = "-" + args[0].Text
	}
	s := scanner{rows: rows, args: args, late: true}
	list, skip := f.row.files, len(rows)-1
	unless, unlessLast := get(list, "unless"), get(list, "unless$")
	for s.scan() {
		switch {
		case s.kind != option && skip > 0:
			skip--
			continue
		case s.kind != option:
			operands = append(operands, s.word)
			continue
		}
		o := f.row.full(s.name, s.short)
		instead = instead || among(unless, o)
		target = target || among(unlessLast, o)
		if !s.valued {
			continue
		}
		switch use := cmp.Or(get(list, o), get(rows[0].files, o)); use {
		case "":
			f.guess(s.value, s.short)
		case fileDir:
			if text, ok := knownText(s.value); ok {
				f.below = join(f.below, text) // git -C a -C b
			}
		default:
			f.use(use, s.value, s.short)
		}
	}
	return operands, instead, target
}

func (f *fileScan) operands(operands []Word, instead, target bool) {
	list := f.row.files
	first, second, last, all := get(list, "1"), get(list, "2"), get(list, "$"), get(list, "*")
	for i, word := range operands {
		n, use := i+1, all
		if instead {
			n++
		}
		switch {
		case n == 1 && first != "":
			use = first
		case n == 2 && second != "":
			use = second
		case i > 0 && i == len(operands)-1 && last != "" && !target:
			use = last
		}
		switch {
		case use != "":
			f.use(use, word, false)
		case first == "":
			f.guess(word, false)
		}
	}
}

// knownText returns the text of a word, or "" if it is not known.
func knownText(w Word) (string, bool) {
	if w.Literal {
		return w.Text, true
	}
	return homely(w.Text)
}

// The letters in program.files, and their meaning for a word.
const (
	fileNone    = "n" // not a file
	fileRead    = "r"
	fileWrite   = "w"
	fileDelete  = "d"
	fileRun     = "x"
	fileAny     = "a" // a file if it looks like a path
	fileMove    = "m"
	fileDir     = "D" // the directory that later paths are relative to
	fileSed     = "s" // written with -i, otherwise read
	filePerl    = "P" // written with -i, otherwise read
	fileAwk     = "A" // read, unless it is NAME=value
	fileAt      = "@" // curl -d @file, name@file
	fileCookies = "b" // curl -b: text with a "=", or a file
	fileForm    = "f" // curl -F name=@file;type=x, name=<file
	fileMount   = "v" // docker -v a:b, --mount source=a,target=b
	fileBlocks  = "k" // dd if=, of=
	fileSecret  = "p" // openssl -passin file:path
	fileEdit    = "e" // read and written, as by an editor
	fileVersion = "g" // git show REV:path, or a path
	fileFrom    = "R" // read, unless it is host:path
	fileTo      = "W" // written, unless it is host:path
	fileArchive = "T" // tar -f: written with -c, otherwise read
)

// use records a word by its letter in the table.
func (f *fileScan) use(letter string, w Word, short bool) {
	text, ok := knownText(w)
	if !ok {
		return
	}
	switch letter {
	case fileNone:
	case fileRead:
		f.add(text, UseRead, w.glob)
	case fileWrite:
		f.add(text, UseWrite, w.glob)
	case fileDelete:
		f.add(text, UseDelete, w.glob)
	case fileRun:
		f.add(text, UseExecute, w.glob)
	case fileAny:
		f.guess(w, short)
	case fileEdit:
		f.add(text, UseRead, w.glob)
		f.add(text, UseWrite, w.glob)
	case fileMove:
		f.add(text, UseRead, w.glob)
		f.add(text, UseDelete, w.glob)
	case fileSed:
		f.add(text, UseRead, w.glob)
		if slices.ContainsFunc(f.Args, sedWrites) {
			f.add(text, UseWrite, w.glob)
		}
	case filePerl:
		if slices.ContainsFunc(f.Args, perlWrites) {
			f.add(text, UseWrite, w.glob)
		}
		f.add(text, UseRead, w.glob)
	case fileAwk:
		if !isAssignment(text) {
			f.add(text, UseRead, w.glob)
		}
	case fileAt:
		if _, path, ok := strings.Cut(text, "@"); ok && !strings.ContainsAny(path, " \n") {
			f.add(path, UseRead, w.glob)
		}
	case fileCookies:
		if !strings.Contains(text, "=") {
			f.add(strings.TrimPrefix(text, "@"), UseRead, w.glob)
		}
	case fileForm:
		f.form(text, w.glob)
	case fileMount:
		f.mount(text)
	case fileBlocks:
		if path, ok := strings.CutPrefix(text, "if="); ok {
			f.add(path, UseRead, w.glob)
		} else if path, ok := strings.CutPrefix(text, "of="); ok {
			f.add(path, UseWrite, w.glob)
		}
	case fileSecret:
		if path, ok := strings.CutPrefix(text, "file:"); ok {
			f.add(path, UseRead, false)
		}
	case fileVersion:
		if _, path, ok := strings.Cut(text, ":"); ok {
			f.add(path, UseRead, false)
		} else {
			f.guess(w, false)
		}
	case fileFrom:
		if !remote(text) {
			f.add(text, UseRead, w.glob)
		}
	case fileTo:
		if !remote(text) {
			f.add(text, UseWrite, w.glob)
		}
	case fileArchive:
		f.archive(text, w.glob)
	}
}

func sedWrites(a Word) bool {
	return strings.HasPrefix(a.Text, "-i") || strings.HasPrefix(a.Text, "--in-place") ||
		len(a.Text) > 2 && a.Text[0] == '-' && a.Text[1] != '-' && strings.Contains(a.Text, "i") && strings.Trim(a.Text[1:], "Ernsuzi") == ""
}

func perlWrites(a Word) bool {
	return strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.Contains(a.Text, "i") && len(a.Text) < 6
}

// remote reports whether text has the form host:path.
func remote(text string) bool {
	host, _, ok := strings.Cut(text, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}

func (f *fileScan) form(text string, glob bool) {
	_, value, _ := strings.Cut(text, "=")
	if value == "" {
		_, value, _ = strings.Cut(text, "@")
		value = "@" + value
	}
	if len(value) > 1 && (value[0] == '@' || value[0] == '<') {
		for path := range strings.SplitSeq(value[1:], ",") {
			path, _, _ = strings.Cut(path, ";")
			f.add(strings.Trim(path, `"`), UseRead, glob)
		}
	}
}

func (f *fileScan) mount(text string) {
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
}

func (f *fileScan) archive(text string, glob bool) {
	if strings.Contains(text, ":") {
		return
	}
	use := UseRead
	for i, a := range f.Args {
		letters := strings.TrimLeft(a.Text, "-")
		if (i == 0 || strings.HasPrefix(a.Text, "-")) && (strings.HasPrefix(a.Text, "--create") || !strings.HasPrefix(a.Text, "--") && strings.ContainsAny(letters, "cru") && letters != text) {
			use = UseWrite
			break
		}
	}
	below := f.below // -C does not apply to this path
	f.below = ""
	f.add(text, use, glob)
	f.below = below
}

// extracts reports whether a word is an option of tar that unpacks.
func extracts(w Word) bool {
	letters, long := strings.CutPrefix(w.Text, "--")
	if long {
		return letters == "extract" || letters == "get"
	}
	return strings.Contains(w.Text, "x") && strings.Trim(w.Text, "-xzjJvfpkP") == ""
}

// guess records a word that looks like a path.
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
	if !rooted && (strings.IndexByte(text, '/') < 0 && !packaged(text) || strings.ContainsAny(text, " \t;|&<>(){}\"'`$")) || rooted && strings.ContainsAny(text, "|;(){}") {
		return
	}
	f.add(text, UseAny, w.glob)
}

// packaged reports whether a word is the name of a package file, which programs install from the
// working directory: dpkg -i a.deb.
func packaged(text string) bool {
	return slices.ContainsFunc([]string{".deb", ".rpm", ".gem", ".whl", ".tgz"}, func(end string) bool { return strings.HasSuffix(text, end) })
}

// URLs lists the addresses in a script: words of commands, and literals in code. It
// omits operands that are only data, such as the words after echo.
func (s *Script) URLs() []string {
	list := slices.Clip(s.urls)
	for i := range s.Commands {
		list = append(list, s.Commands[i].URLs()...)
	}
	return list
}

// CodeURLs returns the addresses in the programs in other languages.
func (s *Script) CodeURLs() []string { return s.urls }

// URLs returns the addresses in the words of the command. Words of programs that only print or
// search text are not addresses.
func (c *Command) URLs() (list []string) {
	switch c.key {
	case "echo", "printf", "grep", "egrep", "fgrep", "rg", "sed", "awk", "test", "[", "sh", "bash", "zsh", "eval", "ag", "ack":
		return nil
	}
	if address(c.Path) { // npx https://...
		list = append(list, c.Path)
	}
	before := ""
	for _, a := range c.Args {
		if url := c.url(a, before); url != "" {
			list = append(list, url)
		}
		before = a.Text
	}
	return list
}

// url returns the address in a word of the command, or "".
func (c *Command) url(a Word, before string) string {
	git := c.key == "git"
	if git && (before == "-m" || before == "--message") {
		return ""
	}
	text := a.Text
	if a.c != nil {
		if address(text) && knownHost(text) { // https://$TOKEN@host/
			return text
		}
		text = a.c.head
	}
	if _, value, ok := strings.Cut(text, "="); ok && strings.HasPrefix(text, "-") {
		text = value
	}
	if address(text) {
		return text
	}
	if _, source, ok := strings.Cut(text, "@"); ok && address(strings.TrimSpace(source)) {
		return strings.TrimSpace(source) // the source of a package: name@https://..., "name @ git+https://..."
	}
	if strings.HasPrefix(a.Text, "-") || !a.Literal || strings.ContainsAny(text, " \t\n") {
		return ""
	}
	switch c.key {
	case "docker", "podman", "nerdctl": // docker login host
		if len(c.Args) > 1 && c.Args[0].Text == "login" && strings.Contains(text, ".") {
			return "https://" + text
		}
	case "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m":
		named := strings.Contains(text, ".") && !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "localhost")
		if named && !curlValue(before) {
			return "http://" + text
		}
	case "git", "scp", "rsync", "sftp":
		host, path, _ := strings.Cut(text, ":")
		if host != "" && path != "" && !strings.ContainsAny(host, "/\\=") && (!git || strings.ContainsAny(host, "@.")) {
			return "ssh://" + host + "/" + strings.TrimLeft(path, "/")
		}
	case "ssh", "nc", "ncat", "netcat", "telnet", "ftp":
		if strings.ContainsAny(text, ".@") {
			return "ssh://" + text
		}
	}
	return ""
}

// knownHost reports whether the host of an address has no computed piece.
func knownHost(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(rest, `/?#`); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	return at > 0 && !strings.ContainsAny(rest[at+1:], "$`(){}") && len(rest) > at+1
}

// curlValue reports whether the argument of this option is not an address.
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

// address reports whether text begins with the scheme of an address.
func address(text string) bool {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || rest == "" || strings.ContainsAny(scheme, " \t\n") {
		return false
	}
	switch strings.ToLower(scheme[strings.LastIndexAny(scheme, "+:")+1:]) {
	case "http", "https", "ftp", "ftps", "ssh", "git", "sftp", "ws", "wss", "s3", "gs", "rsync", "scp", "ldap", "gopher", "tftp", "dict", "telnet", "smb":
		return true
	}
	return false
}
