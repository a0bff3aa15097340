// Package shell tells what a shell line does, without running it, and matches
// patterns against that.
//
//	s := shell.Parse(`cd /srv && sudo git -C app push -f`)
//	p, err := shell.Compile("git push --force")
//	answer, command := p.Match(s) // Yes, the git behind sudo
//
// Parse looks at every simple command: in pipes and lists, subshells, loops and
// functions, in $(...), `...` and <(...) wherever a shell expands them, and behind
// the wrappers of one table: sh -c, eval, sudo, env, xargs, find -exec, timeout
// and their kin. Quotes, backslashes, $'...' and braces are folded, so \rm, 'r'm
// and /bin/rm are all rm. A mention in a quoted string, a comment, a quoted
// here-document or a commit message is data and no command.
//
// Patterns are words and not text; see Pattern.
//
// What cannot be known is said and never taken for harmless. A computed word is
// marked, a pattern that depends on one answers Unknown, and Script.Unknown lists
// what may run other commands than those that were found: a computed command
// name, a pipe into a shell, a sourced file, text that shells read differently or
// not at all. Where a reading is in doubt the package finds too many commands
// rather than too few.
//
// What the line spells out is followed: X=rm; $X -rf / and $(echo rm) -rf / are
// read once as they stand, with a computed name, and once more with the value in
// its place; text that goes through echo, printf, base64, xxd, rev or tr into a
// shell is read like any other line. Programs in other languages (python -c, node
// -e, a here-document for perl) are in Code; calls in them that run, delete or
// open something by a literal name count like the command that does the same, and
// computed ones are Unknown.
//
//	s.Commands[0].Files() // what it reads, writes, deletes, executes
//	s.URLs()              // the addresses that the script names
//
// Lines of PowerShell and of cmd.exe are read by ParseAs, as far as their commands
// and words can be told.
//
// It does not evaluate anything else: no conditions, no globs, no files. It does
// not look into what programs and scripts do. The outermost line is read as Bash
// reads it; what Zsh or a POSIX shell would read otherwise, and could hide a
// command, is in Unknown.
package shell
