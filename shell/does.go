package shell

import (
	"slices"
	"strings"
)

// does reads an option's argument, or an operand, that runs something. kind is the kind from the
// "does" list of the program's row.
func (w *walker) does(kind, name string, value Word, at place) {
	if at.depth >= maxDepth {
		w.unknown("unparsable: nested too deeply")
		return
	}
	if kind == "ext" && !strings.HasPrefix(value.code(), "ext::") {
		return // the usual case
	}
	defer func(sure bool) { w.sure = sure }(w.sure)
	w.sure = false
	in := at.behind(name)
	switch kind {
	case "line":
		w.nest(value.code(), !value.Literal, name, in)
	case "bang":
		w.bang(value.code(), name, in)
	case "plus": // vim +cmd
		if text, ok := strings.CutPrefix(value.code(), "+"); ok {
			w.bang(text, name, in)
		}
	case "ext": // git's ext::command
		w.nest(strings.TrimPrefix(value.code(), "ext::"), !value.Literal, name, in)
	case "exec": // tar's --checkpoint-action=exec=command
		if text, ok := strings.CutPrefix(value.code(), "exec="); ok {
			w.nest(text, !value.Literal, name, in)
		}
	case "ssh":
		w.sshSetting(value, name, in)
	case "git":
		key, text, _ := strings.Cut(value.code(), "=")
		w.gitSetting(key, Word{Text: text, Literal: value.Literal, c: value.c}, text, name, in)
	case "cargo": // cargo --config target.x.runner="line"
		w.cargoSetting(value, name, in)
	case "ssm": // aws ssm send-command --parameters commands=["line"] or commands="line"
		_, text, _ := strings.Cut(value.code(), "ommand")
		lines := quotedTexts(text)
		if _, line, ok := strings.Cut(text, "="); ok && len(lines) == 0 {
			lines = []string{line}
		}
		for _, line := range lines {
			w.nest(line, !value.Literal, name, in)
		}
	case "script": // npm pkg set scripts.x="line"
		if key, text, ok := strings.Cut(value.code(), "="); ok && strings.HasPrefix(key, "scripts.") {
			w.nest(text, !value.Literal, name+" "+key, in)
		}
	case "socat":
		w.socat(value, name, in)
	case "var":
		key, text, ok := strings.Cut(value.code(), "=")
		if !ok {
			text = key
		}
		w.makeText(text, name, !value.Literal, in, makeRun{})
		if ok && (runsVariable(key) != "" || key == "SHELL") {
			w.nest(text, !value.Literal, name+" "+key, in)
		}
	default:
		w.code(kind, value.code(), !value.Literal, name, in)
	}
}

// sshSetting reads an ssh setting that holds a command.
func (w *walker) sshSetting(value Word, name string, at place) {
	key, text := strings.TrimSpace(value.code()), ""
	if i := strings.IndexAny(key, " ="); i >= 0 {
		key, text = key[:i], strings.TrimLeft(key[i:], " =")
	}
	if has("proxycommand localcommand remotecommand knownhostscommand proxyusefdpass match", strings.ToLower(strings.TrimSpace(key))) && text != "none" {
		w.nest(text, !value.Literal, name+" "+key, at)
	}
}

// cargoSetting reads a setting of Cargo that holds a command.
func (w *walker) cargoSetting(value Word, name string, at place) {
	key, text, ok := strings.Cut(value.code(), "=")
	key = strings.TrimSpace(key)
	last := key[strings.LastIndexByte(key, '.')+1:]
	if !ok || !has("runner linker rustc rustc-wrapper rustc-workspace-wrapper rustdoc credential-provider", last) {
		return
	}
	text = strings.TrimSpace(text)
	if words := quotedTexts(text); len(words) > 0 {
		text = strings.Join(words, " ")
	}
	w.nest(text, !value.Literal, name+" "+key, at)
}

// quotedTexts returns the strings in double or single quotes in a text, as in JSON or TOML.
func quotedTexts(text string) (list []string) {
	for {
		i := strings.IndexAny(text, `"'`)
		if i < 0 {
			return list
		}
		quote := text[i]
		var b strings.Builder
		for i++; i < len(text) && text[i] != quote; i++ {
			if text[i] == '\\' && quote == '"' && i+1 < len(text) {
				i++
			}
			b.WriteByte(text[i])
		}
		if i >= len(text) {
			return list
		}
		list, text = append(list, b.String()), text[i+1:]
	}
}

// socat reads the socat addresses that run a command: EXEC:line,pty.
func (w *walker) socat(value Word, name string, at place) {
	w.elsewhere = true
	for part := range strings.SplitSeq(value.code(), "!!") {
		how, text, ok := strings.Cut(part, ":")
		if !ok || !has("exec system shell", strings.ToLower(how)) {
			continue
		}
		if cut := strings.LastIndex(text, ","); cut > 0 && !strings.ContainsAny(text[cut:], " '\"") {
			text = text[:cut] // cut off the options of the address
		}
		w.nest(strings.Trim(text, "'\""), !value.Literal, name, at)
	}
}

// doesOperand reads an operand that runs something, see does. The kind "gitset" also needs the
// operand after it.
func (w *walker) doesOperand(kind, name string, word Word, rest []Word, at place) {
	if kind == "gitset" { // git config KEY VALUE
		if len(rest) > 0 {
			w.gitSetting(word.Text, rest[0], rest[0].code(), name, at.behind(name))
		}
		return
	}
	w.does(kind, name, word, at)
}

// instead reports whether the arguments have an option that replaces the first operand.
func (w *walker) instead(row *program, args []Word) bool {
	s := scanner{rows: []*program{row}, args: args, late: true}
	for s.scan() {
		if s.kind == option && (among(get(row.does, "unless"), s.name) || get(row.does, s.name) != "") {
			return true
		}
	}
	return false
}

// gitSetting reads a git setting that holds a command.
func (w *walker) gitSetting(key string, value Word, text, name string, at place) {
	key = strings.ToLower(key)
	section, _, _ := strings.Cut(key, ".")
	last := key[strings.LastIndexByte(key, '.')+1:]
	switch {
	case section == "alias" && last == "command", section == "alias" && key != "alias":
		line, runs := strings.CutPrefix(text, "!")
		if !runs {
			line = "git " + text
		}
		w.nest(line, !value.Literal, name+" "+key, at)
	case has("core.pager core.editor core.sshcommand core.askpass core.gitproxy core.alternaterefscommand sequence.editor diff.external "+
		"gpg.program uploadpack.packobjectshook sendemail.sendmailcmd interactive.difffilter web.browser", key),
		section == "pager" && text != "true" && text != "false",
		has("difftool mergetool man browser guitool", section) && (last == "cmd" || last == "path"),
		section == "filter" && has("clean smudge process", last), section == "diff" && has("textconv command", last),
		section == "merge" && last == "driver", section == "gpg" && last == "program", section == "trailer" && (last == "command" || last == "cmd"),
		section == "remote" && has("uploadpack receivepack", last), section == "submodule" && last == "update" && strings.HasPrefix(text, "!"),
		section == "hook" && last == "command":
		w.nest(strings.TrimPrefix(text, "!"), !value.Literal, name+" "+key, at)
	case section == "credential" && last == "helper":
		if line, ok := strings.CutPrefix(text, "!"); ok {
			w.nest(line, !value.Literal, name+" "+key, at)
		} else if strings.HasPrefix(text, "/") {
			w.nest(text, !value.Literal, name+" "+key, at)
		}
	case key == "core.fsmonitor" && text != "true" && text != "false" && text != "":
		w.nest(text, !value.Literal, name+" "+key, at)
	}
}

// runsVariable returns how programs run the value of an environment variable: "line" for a shell
// line, "file" for a script, "prompt" for text with substitutions, "git" for settings, "value"
// for one setting, or "" if they do not run it.
func runsVariable(name string) string {
	switch {
	case has(lineVariables, name):
		return "line"
	case name == "BASH_ENV":
		return "file"
	case has("PS0 PS1 PS2 PS4", name):
		return "prompt"
	case name == "GIT_CONFIG_PARAMETERS":
		return "git"
	case strings.HasPrefix(name, "GIT_CONFIG_VALUE_"):
		return "value"
	}
	return ""
}

// lineVariables lists the variables that hold a shell line.
const lineVariables = "GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_PROXY_COMMAND " +
	"PAGER MANPAGER EDITOR VISUAL FCEDIT LESSOPEN LESSCLOSE BROWSER SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR " +
	"PROMPT_COMMAND RSYNC_RSH CVS_RSH SVN_SSH SVN_EDITOR HGEDITOR RUSTC_WRAPPER RUSTC FZF_DEFAULT_COMMAND BAT_PAGER " +
	"SYSTEMD_PAGER SYSTEMD_EDITOR PSQL_PAGER PSQL_EDITOR AWS_PAGER GH_PAGER GH_EDITOR KUBE_EDITOR TEXEDIT MANOPT " +
	"CC CXX LD npm_config_script_shell NPM_CONFIG_SCRIPT_SHELL npm_config_editor"

// variable reads the value of a variable that holds a command.
func (w *walker) variable(name string, value Word, at place) {
	in := at.behind(name)
	if at.depth >= maxDepth {
		return
	}
	text := value.code()
	switch runsVariable(name) {
	case "line":
		text = strings.TrimPrefix(strings.TrimPrefix(text, "|"), "-") // LESSOPEN="|-command %s"
		if text != "" {
			w.nest(text, !value.Literal && !ownVariable(value.Text), name, in)
		}
	case "file": // a shell runs this file at startup
		w.command([]Word{{Text: "source", Literal: true}, value}, in)
	case "prompt":
		if strings.ContainsAny(text, "$`") {
			w.nest(": \""+strings.ReplaceAll(text, `"`, `\"`)+"\"", false, name, in)
		}
	case "git":
		for setting := range strings.SplitSeq(text, "' '") {
			w.does("git", name, Word{Text: strings.ReplaceAll(strings.Trim(setting, "'"), "'='", "="), Literal: value.Literal, c: value.c}, at)
		}
	case "value":
		if line, ok := strings.CutPrefix(text, "!"); ok || strings.ContainsAny(text, " /") {
			w.nest(line, !value.Literal, name, in)
		}
	}
}

// ownVariable reports whether the value refers to another variable of lineVariables:
// EDITOR=$VISUAL. Such a command existed before this line.
func ownVariable(text string) bool {
	name, ok := strings.CutPrefix(strings.Trim(text, `"`), "$")
	return ok && runsVariable(name) == "line"
}

// bang reads input of a program that can run a shell: ":!rm" of an editor, "shell rm" of a
// debugger, "\! rm" of a database.
func (w *walker) bang(text, name string, at place) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimLeft(line, ": \t")
		for _, word := range [...]string{"silent! ", "silent ", "exe ", "execute ", "call ", "norm ", "normal "} {
			line = strings.TrimLeft(strings.TrimPrefix(line, word), ": \t'\"")
		}
		w.bangLine(line, name, at)
	}
}

// bangLine reads one line for bang, after the caller removed prefixes such as "silent".
func (w *walker) bangLine(line, name string, at place) {
	nest := func(text string) { w.nest(text, strings.IndexByte(text, hole) >= 0, name, at) }
	for _, mark := range [...]string{`\!`, ".shell ", ".system ", "shell ", "system ", "platform shell ", "pipe -- ", "!"} {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			nest(rest)
			return
		}
	}
	if i := strings.IndexByte(line, '!'); i > 0 && i < 40 { // :r !cmd, :%!cmd, :w !cmd
		if strings.Trim(strings.TrimSpace(line[:i]), "%.,$0123456789'<>rwead") == "" {
			nest(line[i+1:])
			return
		}
	}
	if _, rest, ok := strings.Cut(line, "|!"); ok {
		w.nest(rest, strings.IndexByte(line, hole) >= 0, name, at)
	}
	if strings.Contains(name, "sql") || strings.Contains(name, "maria") {
		w.backticks(line, name, at)
	}
	if strings.Contains(line, "system") || strings.Contains(line, "python") || strings.Contains(line, "job_start") {
		w.code("vim", line, strings.IndexByte(line, hole) >= 0, name, at)
	}
}

// backticks reads the commands in backquotes of psql: \set x `cmd`.
func (w *walker) backticks(line, name string, at place) {
	for {
		before, rest, _ := strings.Cut(line, "`")
		text, rest, ok := strings.Cut(rest, "`")
		if !ok {
			return
		}
		if strings.Contains(before, `\`) {
			w.nest(text, false, name, at)
		}
		line = rest
	}
}

// sourced reads the argument of source. A file is a script like any other. The output of a
// command is unknown.
func (w *walker) sourced(name string, file Word, at place) {
	switch {
	case file.c != nil && file.c.init:
		w.usual("sourced file: " + visible(file.Text))
	case file.c != nil && file.c.feed != nil:
		w.unknown("sourced file: " + visible(file.Text))
		w.nest(*file.c.feed, false, name, at.behind(name))
	case w.wrote(file, func(text string, computed bool) { w.nest(text, computed, name, at.behind(name)) }):
	case !file.Literal:
		if path, ok := homely(file.Text); !ok || strings.ContainsAny(path, "$`") {
			w.unknown("sourced file: " + visible(file.Text))
		}
	case standardInput(file.Text) && at.from == nil && len(at.stdin) == 0:
		w.unknown("sourced file: " + file.Text)
	case standardInput(file.Text):
		w.input(name, at)
	}
}

// given returns words with the text that xargs reads added or inserted.
func given(words []Word, text, replace string) []Word {
	words = slices.Clone(words)
	if replace == "" {
		for field := range strings.FieldsSeq(text) {
			words = append(words, Word{Text: field, Literal: true})
		}
		return words
	}
	text = strings.TrimSpace(text)
	for i, a := range words {
		if a.Literal && strings.Contains(a.Text, replace) {
			words[i].Text = strings.ReplaceAll(a.Text, replace, text)
		}
	}
	return words
}

// tmux reads the commands of tmux, which are separated by ";".
func (w *walker) tmux(row *program, name string, args []Word, at place) {
	s := scanner{rows: []*program{row}, args: args}
	for s.scan() {
		if s.kind == option {
			if has(row.line, s.name) && s.valued {
				w.does("line", name+" "+dashes(s.name), s.value, at)
			}
			continue
		}
		break
	}
	if s.kind != operand || s.next == 0 {
		return
	}
	for rest := args[s.at:]; len(rest) > 0; {
		end := slices.IndexFunc(rest, func(a Word) bool { return a.Literal && (a.Text == ";" || a.Text == `\;`) })
		one := rest
		if rest = nil; end >= 0 {
			one, rest = one[:end], one[end+1:]
		}
		if len(one) > 0 {
			w.tmuxCommand(row, name, one, at)
		}
	}
}

func (w *walker) tmuxCommand(row *program, name string, words []Word, at place) {
	sub := lookup(row.name + " " + words[0].Text)
	if sub == nil {
		if !words[0].Literal {
			w.unknown("computed subcommand of " + name)
		}
		return
	}
	args := slices.Clone(words[1:])
	if strings.HasPrefix(words[0].Text, "send") {
		for i, a := range args {
			if a.Literal && has("Enter C-m C-M KPEnter ^M", a.Text) {
				args[i].Text = "\n"
			}
		}
	}
	w.wrapper(sub, name+" "+words[0].Text, args, at)
}

// crontab reads the lines of a crontab that is part of the shell line.
func (w *walker) crontab(row *program, name string, args []Word, at place) {
	s := scanner{rows: []*program{row}, args: args}
	for s.scan() {
		if s.kind == option && has(row.none, s.name) {
			return
		}
		if s.kind == operand && s.word.Text != "-" {
			w.wrote(s.word, func(text string, _ bool) { w.crontabText(text, name, at) })
			return
		}
	}
	text, ok := w.fedText(&at)
	if !ok {
		if at.from == nil && len(at.stdin) == 0 {
			return
		}
		w.unknown("pipe into " + name)
		if text, ok = w.output(&at); !ok && at.from == nil {
			return
		}
		if !ok { // (crontab -l; echo "* * * * * rm") | crontab -
			w.unknown(name + " runs what it reads")
			text = w.echoed(&at)
		}
	}
	w.crontabText(text, name, at)
}

// crontabText reads the lines of a crontab.
func (w *walker) crontabText(text, name string, at place) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		n := 5
		if line[0] == '@' {
			n = 1
		}
		for range n {
			_, line, _ = strings.Cut(strings.TrimLeft(line, " \t"), " ")
		}
		if line = strings.TrimSpace(line); line != "" {
			in := at.behind(name)
			in.stdin, in.from = nil, nil
			w.nest(line, strings.IndexByte(line, hole) >= 0, name, in)
		}
	}
}

// parallel reads the lines that parallel builds from the arguments after ":::".
func (w *walker) parallel(name string, words []Word, replace string, at place) {
	cut := slices.IndexFunc(words, func(a Word) bool { return a.Literal && strings.HasPrefix(a.Text, ":::") })
	if cut <= 0 {
		return
	}
	template, ok := literals(words[:cut])
	if !ok {
		return
	}
	if replace == "" {
		replace = "{}"
	}
	line := strings.Join(template, " ")
	for _, a := range words[cut+1:] {
		if !a.Literal || !w.again() {
			return
		}
		one := strings.ReplaceAll(line, replace, a.Text)
		if one == line {
			one += " " + a.Text
		}
		w.nest(one, false, name, at)
	}
}
