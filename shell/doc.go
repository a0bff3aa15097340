// Package shell finds the commands and files of a shell line without running it, and matches
// patterns against the commands.
//
//	s := shell.Parse(`cd /srv && sudo git -C app push -f`)
//	p, err := shell.Compile("git push --force")
//	answer, command := p.Match(s) // Yes, the git behind sudo
//
// Parse reads every simple command: in pipes and lists, in subshells, loops and functions, and in
// $(...), `...` and <(...) wherever a shell expands them. It also reads the commands behind the
// wrappers of one table: sh -c, eval, sudo, env, xargs, find -exec, timeout and similar programs.
// Quotes, backslashes, $'...' and braces are resolved, so \rm, 'r'm and /bin/rm are all rm. Text
// in a quoted string, a comment, a quoted here-document or a commit message is data, not a
// command.
//
// Patterns match words, not text; see Pattern.
//
// The package reports everything that it cannot determine and never treats it as harmless. A
// computed word is marked as such. A pattern that depends on a computed word answers Unknown.
// Script.Unknown lists the parts of the line that may run other commands than those in
// Script.Commands: a computed command name, a pipe into a shell, a sourced file, text that shells
// read differently or cannot parse. If a text has two readings, the package rather finds too many
// commands than too few.
//
// The package follows values that the line itself contains. It reads X=rm; $X -rf / and $(echo
// rm) -rf / twice: as written, with a computed name, and with the value inserted. Text that
// passes through echo, printf, base64, xxd, rev or tr into a shell is read like any other line.
// Programs in other languages (python -c, node -e, a here-document for perl) are in Script.Code.
// If code calls a function that runs, deletes or opens something by a literal name, the call is
// treated like the shell command with the same effect. A computed name adds an entry to
// Script.Unknown.
//
//	s.Commands[0].Files() // the files that it reads, writes, deletes, executes
//	s.URLs()              // the addresses in the script
//
// ParseAs reads lines of PowerShell and cmd.exe, as far as it can separate their commands and
// words.
//
// ParseAfter also reads files that earlier lines wrote. The package evaluates nothing else: no
// conditions, no globs, no other files. It does not look into other programs and scripts that a
// line runs. It reads the outermost line as Bash does. If Zsh or a POSIX shell would read a text
// differently, and the difference could hide a command, Script.Unknown has an entry for it.
//
// # Where to start
//
//	script.go, walk.go     Parse: from the tree of the syntax to the commands, in order
//	word.go, value.go      words, variables and aliases, and the readings of a computed word
//	run.go, call.go        a command that runs other commands: wrappers, and calls of functions and aliases
//	programs.go, table.go  how each program reads its words; does.go for options that run something
//	files.go, deletes.go   what a command does with files; redirect.go for > and <
//	past.go, written.go    what earlier lines of a session changed
//	code*.go, deed.go      code in other languages; powershell.go, powerflow.go for Windows
//	database.go, git.go    databases, git; npm.go, makefile.go for scripts of projects
//	pattern.go, term.go    Compile and Match; allow.go and may.go for the two careful answers
//
// Rules that use the package are in package policy and in internal/policy/match. Package shell is
// not an API: the folder is here to be found, and its names may change in each version.
package shell
