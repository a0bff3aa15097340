package shell

import (
	"cmp"
	"strings"
)

// A deed is the effect of a call.
type deed byte

const (
	nothing    deed = iota
	runLine         // the first argument is a shell line
	runWords        // the arguments are a command, or one argument is a list with a command, or one is a shell line
	runCode         // the first argument is code in the same language
	deleteTree      // rm -rf
	deleteFile      // rm
	deleteOpts      // rm, with -r if the options of the call request it
	deleteEach      // the first argument is the name of a function that deletes, the second a list
	moveFile
	readFile
	writeFile
	openFile // read or write, depending on the mode argument
	runFile
)

// A known is a row of codeTable: functions that have an effect.
type known struct {
	languages string
	names     string // functions
	owner     string // the module of the functions, if the name alone is ambiguous; ! = as a method of any value
	deed      deed
}

// codeTable lists the functions that have an effect.
var codeTable = []known{
	{"python", "system popen", "os", runLine},
	{"python", "getoutput getstatusoutput", "", runLine},
	{"python", "run call check_call check_output Popen", "subprocess", runWords},
	{"python", "spawnl spawnlp spawnv spawnvp spawnle spawnve execl execlp execv execvp execve execle execlpe execvpe posix_spawn posix_spawnp", "os", runWords},
	{"python", "create_subprocess_shell", "", runLine},
	{"python", "create_subprocess_exec", "", runWords},
	{"python", "spawn", "pty", runWords},
	{"python", "spawn run", "pexpect", runLine},
	{"python", "exec eval", "", runCode},
	{"python", "rmtree", "", deleteTree},
	{"python", "remove unlink rmdir removedirs", "os", deleteFile},
	{"python", "rename replace renames", "os", moveFile},
	{"python", "move", "shutil", moveFile},
	{"python", "open", "", openFile},
	{"python", "run_path execfile", "", runFile},
	{"node", "exec execSync", "child_process", runLine},
	{"node", "execSync", "", runLine},
	{"node", "spawn spawnSync execFile execFileSync fork", "child_process", runWords},
	{"node", "spawnSync execFileSync", "", runWords},
	{"node", "spawn spawnSync", "Bun", runWords},
	{"node", "Command", "Deno", runWords},
	{"node", "run", "Deno", runWords},
	{"node", "eval Function runInThisContext runInNewContext runInContext", "", runCode},
	{"node", "rmSync rm rmdir rmdirSync rimraf rimrafSync", "fs", deleteOpts},
	{"node", "rmSync rmdirSync", "", deleteOpts},
	{"node", "unlink", "fs", deleteFile},
	{"node", "unlinkSync", "", deleteFile},
	{"node", "remove removeSync emptyDir emptyDirSync", "fs", deleteTree},
	{"node", "remove removeSync", "Deno", deleteOpts},
	{"node", "rename renameSync", "fs", moveFile},
	{"node", "readFileSync readFile createReadStream readTextFile readTextFileSync", "", readFile},
	{"node", "writeFileSync writeFile appendFile appendFileSync createWriteStream writeTextFile writeTextFileSync", "", writeFile},
	{"go", "RemoveAll", "os", deleteTree},
	{"go", "Remove", "os", deleteFile},
	{"go", "Command", "exec", runWords},
	{"perl ruby", "system exec", "", runWords},
	{"perl", "eval", "", runCode},
	{"perl", "unlink rmdir", "", deleteFile},
	{"perl", "rmtree remove_tree", "", deleteTree},
	{"perl", "rename", "", moveFile},
	{"perl", "open", "", openFile},
	{"perl", "do require", "", runFile},
	{"ruby", "spawn sh", "", runWords}, // sh is of rake
	{"ruby", "popen popen2 popen2e popen3 capture2 capture2e capture3 pipeline", "", runWords},
	{"ruby", "eval instance_eval class_eval", "", runCode},
	{"ruby", "rm_rf rm_r remove_dir remove_entry remove_entry_secure rmtree", "", deleteTree},
	{"ruby", "rm rm_f", "FileUtils", deleteFile},
	{"ruby", "delete unlink", "File", deleteFile},
	{"ruby", "rmdir delete unlink", "Dir", deleteFile},
	{"ruby", "mv rename", "FileUtils", moveFile},
	{"ruby", "rename", "File", moveFile},
	{"ruby", "read readlines foreach binread", "File", readFile},
	{"ruby", "read readlines foreach binread", "IO", readFile},
	{"ruby", "write binwrite", "File", writeFile},
	{"ruby", "write binwrite", "IO", writeFile},
	{"ruby", "open new", "File", openFile},
	{"ruby", "open", "", openFile},
	{"ruby", "load require_relative", "", runFile},
	{"php", "system exec shell_exec passthru popen proc_open pcntl_exec", "", runLine},
	{"php", "eval assert create_function", "", runCode},
	{"php", "unlink rmdir", "", deleteFile},
	{"php", "array_map", "", deleteEach},
	{"php", "rename", "", moveFile},
	{"php", "file_get_contents readfile file", "", readFile},
	{"php", "file_put_contents", "", writeFile},
	{"php", "fopen", "", openFile},
	{"php", "include require include_once require_once", "", runFile},
	{"lua", "execute", "os", runLine},
	{"lua", "popen", "io", runLine},
	{"lua", "load loadstring", "", runCode},
	{"lua", "remove", "os", deleteFile},
	{"lua", "rename", "os", moveFile},
	{"lua", "open", "io", openFile},
	{"lua", "lines", "io", readFile},
	{"lua", "dofile loadfile", "", runFile},
	{"awk", "system", "", runLine},
	{"r", "system shell", "", runLine},
	{"r", "system2", "", runWords},
	{"r", "unlink", "", deleteTree},
	{"r", "eval", "", nothing},
	{"applescript", "doShellScript", "", runLine},
	{"vim", "system systemlist job_start termopen", "", runWords},
	{"vim", "rmtree", "", deleteTree},
	{"elisp", "shell-command", "", runLine},
	{"ruby", "cmd shell", "System", runWords}, // Elixir
	{"ruby", "cmd", "os", runLine},
	{"scala", "Process", "", runWords},
	{"scala", "exec", "", runLine},
	{"scala", "ProcessBuilder", "", runWords},
	{"erlang", "cmd", "", runLine},
	{"erlang", "del_dir_r", "", deleteTree},
	{"julia", "rm", "", deleteTree},
	{"gnuplot", "system", "", runLine},
	{"swift", "system", "", runLine},
}

// line reads a shell line that the code runs.
func (c *codeScan) line(text string, literal bool) {
	c.calls++
	if literal {
		c.nest(text, false, c.name, c.at)
		return
	}
	if strings.IndexByte(text, hole) < 0 {
		text += " " + c.hole("...")
	}
	c.nest(text, true, c.name, c.at)
}

// do records the effect of a call.
func (c *codeScan) do(what deed, name string, args []argument) {
	if len(args) == 0 {
		return
	}
	first := args[0]
	switch what {
	case nothing:
	case runLine:
		if first.literal {
			c.line(first.text, true)
			return
		}
		if first.isList {
			c.words(first.list)
			return
		}
		c.unknown(c.name + " runs a computed command")
		if first.text != "" {
			c.line(first.text, false)
		}
	case runWords:
		c.run(args)
	case runCode:
		if first.literal && first.text != "" {
			w := c.walker
			w.code(c.language, first.text, false, c.name, c.at)
		} else if !first.isList || first.source != "" {
			c.unknown(c.name + " runs computed code")
		}
	case deleteTree:
		c.files("rm", "-rf", args)
	case deleteFile:
		c.files("rm", "", args)
	case deleteEach:
		if has("unlink rmdir", first.text) && len(args) > 1 {
			c.deletes("", args[1].source)
		}
	case deleteOpts:
		options, all := "", ""
		for _, a := range args[1:] {
			all += a.source
		}
		flat := strings.Join(strings.Fields(all), "")
		if strings.Contains(flat, "recursive:true") || strings.Contains(flat, "recursive:!0") || strings.Contains(name, "rimraf") || all != "" && !strings.Contains(flat, "recursive") && !strings.Contains(flat, "{") {
			options = "-r"
		}
		if strings.Contains(flat, "force:true") || strings.Contains(flat, "force:!0") {
			options = "-" + strings.TrimPrefix(options, "-") + "f"
		}
		c.files("rm", options, args[:1])
	case moveFile:
		c.files("mv", "", args[:min(2, len(args))])
	case readFile, writeFile, openFile, runFile:
		c.opens(what, args)
	}
}

// run reads a call that runs a program, either from a list of words or from a shell line.
func (c *codeScan) run(args []argument) {
	first, shell := args[0], false
	for _, a := range args[1:] {
		shell = shell || a.key == "shell" && strings.TrimSpace(a.source[strings.IndexAny(a.source, "=:")+1:]) != "False" ||
			strings.Contains(strings.Join(strings.Fields(a.source), ""), "shell:true")
	}
	switch {
	case first.key == "cmd" || first.key == "args" && first.isList:
		c.words(first.list)
	case first.isList && shell && len(first.list) > 0 && first.list[0].literal:
		c.line(first.list[0].text, true)
	case first.isList:
		c.words(first.list)
	case first.literal && len(args) > 1 && args[1].isList && args[1].key == "":
		list := args[1].list
		if c.language == "python" && len(list) > 0 {
			list = list[1:] // os.execvp("rm", ["rm", ...])
		}
		c.words(append([]argument{first}, list...))
	case first.literal && c.language == "node" && len(args) > 1 && strings.Contains(args[1].source, "args"): // Deno.Command("rm", {args: [...]})
		if i := strings.IndexByte(args[1].source, '['); i >= 0 {
			in := *c
			in.text = args[1].source
			list, _ := in.arguments(i+1, ']', 1)
			c.words(append([]argument{first}, list...))
			return
		}
		c.words(args[:1])
	case first.literal && (shell || len(args) == 1 || args[1].key != "" || strings.HasPrefix(args[1].source, "{")):
		c.line(first.text, true)
	case first.literal && c.language == "python": // os.execlp("rm", "rm", "-rf", "/")
		rest := args[1:]
		if len(rest) > 0 && rest[0].literal && programName(rest[0].text) == programName(first.text) {
			rest = rest[1:]
		}
		c.words(append([]argument{first}, rest...))
	case first.literal:
		c.words(args)
	case first.key != "" && !first.isList && !first.literal && first.text == "":
	default:
		c.unknown(c.name + " runs a computed command")
		if first.text != "" {
			c.line(first.text, false)
		}
	}
}

// words records a command with the arguments as its words.
func (c *codeScan) words(list []argument) {
	var words []Word
	for _, a := range list {
		if a.key != "" && len(words) > 0 || a.isList {
			continue
		}
		words = append(words, c.argumentWord(a))
	}
	if len(words) > 0 {
		c.command(words, c.at)
	}
}

// argumentWord converts an argument of a call to a word of a command.
func (c *codeScan) argumentWord(a argument) Word {
	if a.literal {
		return Word{Text: a.text, Literal: true}
	}
	if homeOf(a.source) {
		return Word{Text: "~", Literal: true}
	}
	show := a.source
	if len(show) > maxReason {
		show = show[:maxReason]
	}
	return Word{Text: show, c: &computed{code: c.hole(show), operand: false}}
}

// homeOf reports whether an expression is the home directory.
func homeOf(source string) bool {
	switch strings.NewReplacer(`"`, "", "'", "", " ", "", "pathlib.", "").Replace(source) {
	case "os.Getenv(HOME)", "os.environ[HOME]", "os.environ.get(HOME)", "os.getenv(HOME)", "os.path.expanduser(~)", "Path.home()",
		"process.env.HOME", "os.homedir()", "require(os).homedir()", "homedir()", "ENV[HOME]", "Dir.home", "getenv(HOME)", "$ENV{HOME}":
		return true
	}
	return false
}

// files records commands that do the same with files as the function: rm or mv.
func (c *codeScan) files(program, options string, args []argument) {
	var words []Word
	for _, a := range args {
		switch {
		case a.isList:
			for _, b := range a.list {
				words = append(words, c.argumentWord(b))
			}
		case a.literal:
			words = append(words, c.argumentWord(a))
		case a.key == "":
			if program == "rm" && c.deletes(options, a.source) {
				continue
			}
			word := c.argumentWord(a)
			if word.c != nil {
				word.c.operand = true
			}
			words = append(words, word)
		}
	}
	if len(words) > 0 {
		c.filesCommand(program, options, words)
	}
}

func (c *codeScan) filesCommand(program, options string, words []Word) {
	before := []Word{{Text: program, Literal: true}}
	if options != "" && options != "-" {
		before = append(before, Word{Text: options, Literal: true})
	}
	c.command(append(before, words...), c.at)
}

// deletes records the deletion of the possible values of an expression, and reports whether that is known.
func (c *codeScan) deletes(options, expr string) bool {
	list := c.followed(expr, c.begin)
	for _, p := range list {
		with := options
		if p.deep && p.only == nil {
			with = cmp.Or(options, "-r")
		}
		c.filesCommand("rm", with, []Word{p.word(c.walker)})
	}
	return list != nil
}

// opens records a file that the code reads, writes or runs. The file is added to the command of
// the interpreter.
func (c *codeScan) opens(what deed, args []argument) {
	if c.at.parent < 0 {
		return
	}
	switch what {
	case writeFile:
		c.uses(args[0], UseWrite)
	case runFile:
		c.uses(args[0], UseExecute)
	case openFile:
		if c.language == "perl" {
			c.openPerl(args[1:])
		} else {
			c.openByMode(args[0], args[1:])
		}
	default:
		c.uses(args[0], UseRead)
	}
}

// uses adds a file to the command of the interpreter, if the path is literal and not a URL.
func (c *codeScan) uses(path argument, use Use) {
	if path.literal && path.text != "" && !strings.Contains(path.text, "://") {
		cmd := &c.s.Commands[c.at.parent]
		cmd.files = append(cmd.files, File{Path: join(c.dir, path.text), Use: use})
	}
}

// openByMode reads open("path", "w"), and open("|line") in Ruby.
func (c *codeScan) openByMode(path argument, rest []argument) {
	if line, ok := strings.CutPrefix(path.text, "|"); ok && c.language == "ruby" {
		c.line(line, path.literal)
		return
	}
	mode := ""
	for _, a := range rest {
		if a.literal && (a.key == "" || a.key == "mode") {
			mode = a.text
			break
		}
	}
	c.uses(path, modeUse(mode))
}

// openPerl reads open(F, ">path"), open(F, ">", "path") and open(F, "line |"). Its argument is
// the list of arguments after the file handle.
func (c *codeScan) openPerl(rest []argument) {
	if len(rest) == 0 {
		return
	}
	path, mode := rest[0], ""
	if len(rest) > 1 {
		mode, path = path.text, rest[1]
	} else if path.literal {
		path.text = strings.TrimSpace(path.text)
		line, pipe := strings.CutPrefix(path.text, "|")
		if !pipe {
			line, pipe = strings.CutSuffix(path.text, "|")
		}
		if pipe {
			c.line(line, true)
			return
		}
		name := strings.TrimLeft(path.text, "<>+ ")
		mode, path.text = path.text[:len(path.text)-len(name)], name
	}
	switch {
	case !strings.Contains(mode, "|"):
		c.uses(path, modeUse(mode))
	case path.literal:
		c.line(path.text, true)
	default:
		c.unknown(c.name + " runs a computed command")
	}
}

// modeUse returns the use of a file that is opened with a mode such as "r+" or ">".
func modeUse(mode string) Use {
	switch {
	case strings.Contains(mode, "+"):
		return UseAny
	case strings.ContainsAny(mode, "wax>"):
		return UseWrite
	}
	return UseRead
}
