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
// It does not evaluate anything: no variables, not even those the line itself
// sets, no globs, no files. It does not look into what programs do, nor yet into
// lines that they run by other means than the table knows: ssh, docker exec, git
// aliases, python -c, variables such as GIT_SSH_COMMAND. The outermost line is
// read as Bash reads it; what Zsh or a POSIX shell would read otherwise, and
// could hide a command, is in Unknown.
package shell
