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
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
)

// Inherit says what a program sees of our own environment. Variables that begin
// with GRAPNEL_ are never inherited; they are of the event.
type Inherit uint8

// What a program inherits.
const (
	// InheritAll is everything but what looks like a secret and what steers other
	// programs: an agent's project settings can set any variable of the hook process,
	// and BASH_ENV would run a project's file before anybody trusted it, HTTPS_PROXY
	// with SSL_CERT_FILE send what a hook tells to somebody else. Command.Allow lets
	// single names through.
	InheritAll Inherit = iota

	// InheritMinimal is PATH, HOME, LANG, LC_* and TMPDIR, and on Windows what a
	// program cannot start without. Command.Allow adds nothing to it.
	InheritMinimal
)

// InheritFor is what hooks of a scope inherit: those of projects and plugins the
// minimum, the others all.
func InheritFor(scope grapnel.Scope) Inherit {
	if scope == grapnel.ScopeProject || scope == grapnel.ScopePlugin {
		return InheritMinimal
	}
	return InheritAll
}

const (
	// maxVar bounds one variable, maxVars all variables of an event. Linux refuses
	// to start a program with one variable of 128 KiB, or some 2 MiB in all, and
	// what it holds is written by the model: without these bounds it could switch a
	// hook off by using a long path.
	maxVar  = 8 << 10
	maxVars = 64 << 10

	// maxForeignVars bounds all variables of another system's hooks; see
	// maxForeignVar.
	maxForeignVars = 192 << 10

	cutMark = "… [grapnel: %d more bytes cut]"

	depthVar = "GRAPNEL_DEPTH"
)

// maxForeignVar bounds one variable of another system's hooks at what the system
// bears: such a hook may have no other input, and does not judge what is cut.
var maxForeignVar = map[bool]int{false: 120 << 10, true: 30 << 10}[runtime.GOOS == "windows"]

// Depth is how many hooks we run inside of: 0 unless a hook's program has started
// the agent that fired this event.
func Depth() int {
	n, err := strconv.Atoi(os.Getenv(depthVar))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// environ is the environment of the program for one event, or, if that is nil, for
// many.
func (c *Command) environ(ev *grapnel.Event, dir string) []string {
	env := c.inherited(os.Environ())
	env = append(env, "PWD="+dir)
	for _, v := range c.Env {
		env = append(env, strings.ReplaceAll(v, "\x00", ""))
	}
	if c.Vars != nil && ev != nil {
		env = append(env, bounded(c.Vars(ev), maxForeignVar, maxForeignVars)...)
	}
	return append(env, bounded(c.variables(ev), maxVar, maxVars)...) // of two equal names os/exec takes the last
}

// variables are those of every event. All are always set, for scripts that run
// with "set -u".
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
		path = strings.ReplaceAll(tool.Paths[0].Path, "\x00", "") // as bounded does: "\x00-rf" must not become an option
	}
	if c.InDir && path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(ev.Session.CWD, path) // where the program runs it would be another file
	}
	if strings.HasPrefix(path, "-") {
		// The same file, but no option of the program that gets "$GRAPNEL_PATH".
		path = "./" + path
	}
	return append(own,
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

// bounded makes variables harmless to the start of a program, whatever they hold:
// without NUL bytes, none too long, and not too much in all. What is short stays
// whole: a large output must not cut the word that says whether it is an error. Of two
// equal names the first counts.
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

// cut shortens a text to a limit, its mark included, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	at := max(0, limit-len(cutMark)-20)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + fmt.Sprintf(cutMark, len(text)-at)
}

// inherited picks what the program sees of our own environment.
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
		case c.Inherit == InheritAll && !slices.Contains(c.Allow, name) && (looksSecret(name) || steers(name)):
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

// steering are variables by which somebody else says what a program does that was not
// asked to listen to them: whose code it loads, whose settings it reads, through whom it
// connects and whom it believes, and how the runtimes of languages behave. Of those that
// end in _ all with that beginning count. No list is complete: what only one program
// reads is not here.
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

// steers reports whether a variable is one of those. Who wrote a commit is a name and no
// more.
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
	// secretWords make a name look secret where they are a whole word of it,
	// secretEnds also where a word ends in them: PGPASSWORD, githubtoken.
	secretWords = []string{"KEY", "KEYS", "AUTH", "PRIVATE", "PASS", "PWD", "CREDS", "JWT", "PAT"}
	secretEnds  = []string{
		"TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
		"COOKIE", "COOKIES", "APIKEY", "APIKEYS", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "SSHKEY", "AUTHKEY",
	}

	// harmless are names that only look like it: addresses, directories and counts.
	harmless = []string{"SSH_AUTH_SOCK", "PWD", "OLDPWD"}
	counts   = []string{"MAX", "MIN", "NUM", "LIMIT", "COUNT", "BUDGET"}
)

// looksSecret reports whether a variable's name says that it holds a secret.
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

// dir is the first directory, of those that could be meant, in which a program
// can run.
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

// usable reports whether a program can have this as its working directory. Asking
// for what is inside also asks for the right to enter.
func usable(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	info, err := os.Stat(dir + string(filepath.Separator) + ".")
	return err == nil && info.IsDir()
}
