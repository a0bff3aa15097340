package process

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Inherit defines which variables of this process a program gets. Variables with the prefix
// GRAPNEL_ are never inherited; they describe the event.
type Inherit uint8

// The inheritance modes.
const (
	// InheritAll passes every variable except those that look like secrets, by their name or their
	// value, and those that control other programs. An agent's project settings can set any
	// variable of the hook process: BASH_ENV would run a project's file before the user trusted the
	// project, and HTTPS_PROXY with SSL_CERT_FILE would send a hook's traffic to an attacker.
	// Command.Allow passes single names.
	InheritAll Inherit = iota

	// InheritMinimal passes PATH, HOME, LANG, LC_* and TMPDIR, and on Windows the variables that
	// a program needs to start. Command.Allow has no effect.
	InheritMinimal
)

// InheritFor returns the mode for hooks of a scope: InheritMinimal for projects and plugins,
// InheritAll for the others.
func InheritFor(scope grapnel.Scope) Inherit {
	if scope == grapnel.ScopeProject || scope == grapnel.ScopePlugin {
		return InheritMinimal
	}
	return InheritAll
}

const (
	// maxVar limits one variable in bytes, and maxVars all variables of an event. Linux refuses
	// to start a program with one variable of 128 KiB, or about 2 MiB in total. The model
	// controls the content of these variables: without limits, it could disable a hook by using a
	// long path.
	maxVar  = 8 << 10
	maxVars = 64 << 10

	// maxForeignVars limits all variables for another system's hooks; see maxForeignVar.
	maxForeignVars = 192 << 10

	cutMark = "… [grapnel: %d more bytes cut]"

	depthVar = "GRAPNEL_DEPTH"
)

// maxForeignVar limits one variable for another system's hooks to the maximum of the operating
// system. Such a hook may have no other input, and could not judge text that was cut.
var maxForeignVar = map[bool]int{false: 120 << 10, true: 30 << 10}[runtime.GOOS == "windows"]

// Depth returns the nesting depth of hooks: 0 unless a hook's program started the agent that
// fired this event.
func Depth() int {
	n, err := strconv.Atoi(os.Getenv(depthVar))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// environ returns the environment of the program for one event. If ev is nil, it is for a worker
// that handles many events.
func (c *Command) environ(ev *grapnel.Event, dir string) []string {
	env := c.inherited(os.Environ())
	env = append(env, "PWD="+dir)
	for _, v := range c.Env {
		env = append(env, strings.ReplaceAll(v, "\x00", ""))
	}
	if c.Vars != nil && ev != nil {
		env = append(env, bounded(c.Vars(ev), maxForeignVar, maxForeignVars)...)
	}
	return append(env, bounded(c.variables(ev), maxVar, maxVars)...) // os/exec uses the last of several equal names
}

// variables returns the variables of every event. All are always set, for scripts that use "set
// -u".
func (c *Command) variables(ev *grapnel.Event) []string {
	own := []string{depthVar + "=" + strconv.Itoa(Depth()+1), "GRAPNEL_HOOK=" + c.Name}
	if ev == nil {
		return own
	}
	var tool grapnel.Tool
	if ev.Tool != nil {
		tool = *ev.Tool
	}
	root := ev.Session.Root
	if root == "" {
		root = ev.Session.CWD
	}
	path := ""
	if len(tool.Paths) > 0 {
		path = strings.ReplaceAll(tool.Paths[0].Path, "\x00", "") // as in bounded: "\x00-rf" must not become an option
	}
	if c.InDir && path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(ev.Session.CWD, path) // relative to the program's directory it would be another file
	}
	if strings.HasPrefix(path, "-") {
		// The same file, but not an option of a program that gets "$GRAPNEL_PATH".
		path = "./" + path
	}
	commandDir := ev.Session.CWD
	if c.CommandDir != nil {
		commandDir = c.CommandDir(ev)
	}
	return append(own,
		"GRAPNEL_COMMAND_DIR="+commandDir,
		"GRAPNEL_EVENT="+string(ev.Kind),
		"GRAPNEL_AGENT="+ev.Agent.Name,
		"GRAPNEL_SESSION="+ev.Session.ID,
		"GRAPNEL_CWD="+ev.Session.CWD,
		"GRAPNEL_ROOT="+root,
		"GRAPNEL_TOOL="+tool.Name,
		"GRAPNEL_TOOL_CLASS="+string(tool.Class),
		"GRAPNEL_PATH="+path,
		"GRAPNEL_COMMAND="+strings.Join(tool.Commands, "\n"),
	)
}

// bounded limits variables so that they cannot prevent the start of a program. It removes NUL
// bytes, and limits each variable and their total size. It cuts the longest ones first, so that a
// large output does not cut a short variable, such as the one for errors. Of several equal names
// it keeps the first.
func bounded(vars []string, each, all int) []string {
	seen := make(map[string]bool, len(vars))
	var out []string
	for _, v := range vars {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" || strings.Contains(name, "\x00") || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, strings.ReplaceAll(v, "\x00", ""))
	}
	shortest := make([]*string, len(out))
	for i := range out {
		shortest[i] = &out[i]
	}
	slices.SortStableFunc(shortest, func(a, b *string) int { return cmp.Compare(len(*a), len(*b)) })
	left := all
	for _, v := range shortest {
		name, value, _ := strings.Cut(*v, "=")
		*v = name + "=" + cut(value, min(each, max(0, left)))
		left -= len(*v) + 1
	}
	return out
}

// cut shortens a text at a character boundary to a limit in bytes, including the notice.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	kept := rawjson.Cut(text, limit-len(cutMark)-20)
	return kept + fmt.Sprintf(cutMark, len(text)-len(kept))
}

// inherited returns the variables of this process that the program gets.
func (c *Command) inherited(own []string) []string {
	var env []string
	for _, v := range own {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" { // Windows keeps "=C:=C:\dir"
			continue
		}
		folded := name
		if runtime.GOOS == "windows" {
			folded = strings.ToUpper(name)
		}
		switch {
		case strings.HasPrefix(folded, "GRAPNEL_"), folded == "PWD":
		case c.Inherit == InheritMinimal && !slices.Contains(minimal, folded) && !strings.HasPrefix(folded, "LC_"):
		case c.Inherit == InheritAll && !slices.Contains(c.Allow, name) && (looksSecret(name) || steers(name) || holdsSecret(v)):
		default:
			env = append(env, v)
		}
	}
	return env
}

var minimal = minimalNames()

func minimalNames() []string {
	if runtime.GOOS == "windows" {
		return []string{
			"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP",
			"HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "LANG", "TMPDIR",
		}
	}
	return []string{"PATH", "HOME", "LANG", "TMPDIR"}
}

// steering lists variables that control programs without being passed to them explicitly: which
// code they load, which settings they read, which proxy and certificates they use, and how
// language runtimes behave. An entry that ends in _ matches every name with that prefix. The list
// cannot be complete: it omits variables that only one program reads.
var steering = []string{
	"BASH_ENV", "BASH_FUNC_", "BASHOPTS", "CDPATH", "ENV", "FPATH", "INPUTRC", "PROMPT_COMMAND", "PS4", "SHELL", "SHELLOPTS", "ZDOTDIR",
	"DYLD_", "GCONV_PATH", "GLIBC_TUNABLES", "LD_", "LOCPATH", "MALLOC_",
	"GIT_", "BROWSER", "EDITOR", "LESSCLOSE", "LESSOPEN", "PAGER", "SSH_ASKPASS", "VISUAL",
	"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "LUA_",
	"NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_TLS_REJECT_UNAUTHORIZED",
	"PERL5DB", "PERL5LIB", "PERL5OPT", "PERLLIB", "RUBYLIB", "RUBYOPT",
	"PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS",
	"GOCOVERDIR", "GODEBUG", "GOENV", "GOFLAGS", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOROOT", "GOTOOLCHAIN", "GOTRACEBACK",
	"XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	"CURL_CA_BUNDLE", "CURL_HOME", "NETRC", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "WGETRC",
}

// steers reports whether a variable is in this list. The author and committer variables of git
// are excluded, because they only contain names.
func steers(name string) bool {
	name = strings.ToUpper(name) // http_proxy
	if strings.HasPrefix(name, "GIT_AUTHOR_") || strings.HasPrefix(name, "GIT_COMMITTER_") {
		return false
	}
	return slices.ContainsFunc(steering, func(s string) bool {
		return name == s || strings.HasSuffix(s, "_") && strings.HasPrefix(name, s)
	})
}

var (
	// A name looks secret if one of its words is in secretWords, or if one of its words ends in
	// an entry of secretEnds: PGPASSWORD, githubtoken.
	secretWords = []string{"KEY", "KEYS", "AUTH", "BEARER", "PRIVATE", "PASS", "PWD", "CREDS", "JWT", "PAT"}
	secretEnds  = []string{
		"TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
		"COOKIE", "COOKIES", "APIKEY", "APIKEYS", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "SSHKEY", "AUTHKEY",
	}

	// harmless are names that only look secret: addresses and directories. counts are words that
	// make TOKENS a number.
	harmless = []string{"SSH_AUTH_SOCK", "PWD", "OLDPWD"}
	counts   = []string{"MAX", "MIN", "NUM", "LIMIT", "COUNT", "BUDGET"}
)

// looksSecret reports whether a variable's name suggests that it holds a secret.
func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	if slices.Contains(harmless, name) {
		return false
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	counting := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(counts, w) })
	for _, w := range words {
		if w == "TOKENS" && counting { // MAX_OUTPUT_TOKENS
			continue
		}
		if slices.Contains(secretWords, w) || slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(w, end) }) {
			return true
		}
	}
	return false
}

// holdsSecret reports whether the value of a variable is a credential, under any name: a known kind of
// key, or an address with a password. v is NAME=value.
func holdsSecret(v string) bool {
	_, address, _ := strings.Cut(v, "://")
	if end := strings.IndexAny(address, "/?# "); end >= 0 {
		address = address[:end]
	}
	login, _, at := strings.Cut(address, "@")
	_, password, _ := strings.Cut(login, ":")
	return at && password != "" || len(secret.Find(v)) > 0
}

// dir returns the first usable working directory. With InDir it returns Dir.
func (c *Command) dir(ev *grapnel.Event) string {
	if c.InDir {
		return c.Dir
	}
	home, _ := os.UserHomeDir()
	dirs := []string{c.Dir, home}
	if ev != nil {
		dirs = []string{ev.Session.CWD, ev.Session.Root, c.Dir, home}
	}
	for _, dir := range dirs {
		if usable(dir) {
			return dir
		}
	}
	return os.TempDir()
}

// usable reports whether a program can use dir as its working directory. The stat of "dir/." also
// checks the right to enter it.
func usable(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	info, err := os.Stat(dir + string(filepath.Separator) + ".")
	return err == nil && info.IsDir()
}
