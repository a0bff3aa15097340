package dialect

import (
	"path"
	"slices"
	"strings"
)

// OfProcess returns the title of the agent that a process is a part of, or "". exe is the path of its
// program, name the name that the system shows for it, and args its arguments with the program
// first; each of them may be empty. An editor, its terminal, and a process that an agent only
// started are not the agent.
func OfProcess(exe, name string, args []string) string {
	words := append([]string{exe, name}, args[:min(1, len(args))]...)
	if slices.ContainsFunc(words, interprets) {
		words = append(words, script(args))
	}
	for i, word := range words {
		words[i] = strings.ToLower(strings.ReplaceAll(word, `\`, "/"))
	}
	for _, d := range dialects {
		if d.setup == nil {
			continue
		}
		for _, pattern := range d.setup.Processes {
			if slices.ContainsFunc(words, func(word string) bool { return runsAs(word, pattern) }) {
				return d.Title
			}
		}
	}
	return ""
}

// runsAs reports whether the path of a program or script matches an element of Setup.Processes.
func runsAs(file, pattern string) bool {
	if strings.Contains(pattern, "/") {
		return strings.Contains("/"+file+"/", "/"+pattern+"/")
	}
	ok, _ := path.Match(pattern, baseName(file))
	return ok
}

// baseName returns the name of a program or script without its directory and extension. A login
// shell begins with "-".
func baseName(file string) string {
	name := strings.TrimPrefix(path.Base(file), "-")
	if ext := path.Ext(name); slices.Contains([]string{".exe", ".cmd", ".js", ".mjs", ".cjs", ".ts", ".py", ".sh"}, ext) {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// interprets reports whether a program runs a script that its arguments name.
func interprets(file string) bool {
	name := strings.TrimRight(baseName(strings.ReplaceAll(file, `\`, "/")), ".0123456789")
	return slices.Contains([]string{"node", "nodejs", "bun", "deno", "python", "sh", "bash", "dash", "zsh", "ksh"}, name)
}

// script returns the script that an interpreter with these arguments runs, or "".
func script(args []string) string {
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains([]string{"-c", "-e", "-p", "--eval", "--print"}, arg): // code, not a file
			return ""
		case slices.Contains([]string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--title", "-W", "-X"}, arg):
			i++
		case strings.HasPrefix(arg, "-"), i == 1 && arg == "run": // python -m MODULE, bun run FILE
		default:
			return arg
		}
	}
	return ""
}
