package spool

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mask replaces what looks like a secret with ***, and keeps what says which kind
// it was: sk-ant-***, password=***, Bearer ***. It knows the keys and tokens of
// common services by their prefix, private keys, JSON web tokens, and values that
// are assigned to a name such as password or api_key.
//
// It is made to keep ordinary text as it is, digests and UUIDs included, so it
// finds no secret that looks like a word.
func Mask(text string) string { return maskWith(everything(), text) }

// A secret is one way in which secrets show. A text is searched for a word that
// comes right before every secret of the kind; only there does an expression look
// on, so that a text without the word costs next to nothing, and no expression is
// compiled in vain.
type secret struct {
	words []string                               // what comes before it
	fold  bool                                   // in upper or lower case; words are lower
	near  []string                               // one of these has to be there too, in upper or lower case; nil = nothing
	start bool                                   // words are not the end of a longer one
	tail  string                                 // what follows the word; its group is the secret
	check func(text string, begin, end int) bool // what else must hold; nil = nothing

	once sync.Once
	expr *regexp.Regexp
}

// value is what may be assigned to a name, after an operator or a colon.
const value = `["']?[ \t]*(?:=>|:=|[:=])[ \t]*["']?([^\s"'&;,<>(){}|` + "`" + `]{3,})`

// secrets is the table of what Mask knows.
var secrets = [...]secret{
	{words: []string{"sk-"}, start: true, tail: `(?:ant-|proj-|svcacct-|admin-|or-v1-|lf-)?([A-Za-z0-9_-]{16,})`, check: random},
	{words: []string{"sk_", "rk_"}, start: true, tail: `(?:live|test)_([A-Za-z0-9]{10,})`},
	{words: []string{"whsec_"}, start: true, tail: `([A-Za-z0-9+/=]{20,})`},
	{words: []string{"gh"}, start: true, tail: `[pousr]_([A-Za-z0-9]{30,})`},
	{words: []string{"github_pat_"}, start: true, tail: `([A-Za-z0-9_]{20,})`},
	{words: []string{"gl"}, start: true, tail: `(?:pat|dt|rt|ptt|cbt)-([A-Za-z0-9_.-]{16,})`, check: random},
	{words: []string{"xox"}, start: true, tail: `[a-z]-([A-Za-z0-9-]{10,})`},
	{words: []string{"xapp-"}, start: true, tail: `([A-Za-z0-9-]{10,})`},
	{words: []string{"hooks.slack.com/services/"}, tail: `(T[A-Za-z0-9]+/B[A-Za-z0-9]+/[A-Za-z0-9]{16,})`},
	{words: []string{"AKIA", "ASIA"}, start: true, tail: `([A-Z0-9]{16})(?:[^A-Za-z0-9]|$)`},
	{words: []string{"AIza"}, start: true, tail: `([A-Za-z0-9_-]{35})`},
	{words: []string{"ya29."}, start: true, tail: `([A-Za-z0-9_-]{20,})`},
	{words: []string{"GOCSPX-"}, start: true, tail: `([A-Za-z0-9_-]{20,})`},
	{words: []string{"npm_"}, start: true, tail: `([A-Za-z0-9]{36})(?:[^A-Za-z0-9]|$)`},
	{words: []string{"pypi-"}, start: true, tail: `([A-Za-z0-9_-]{50,})`},
	{words: []string{"hf_"}, start: true, tail: `([A-Za-z0-9]{30,})`},
	{words: []string{"SG."}, start: true, tail: `([A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})`},
	{words: []string{"dop_v1_"}, start: true, tail: `([a-f0-9]{64})`},
	{words: []string{"AGE-SECRET-KEY-1"}, tail: `([A-Z0-9]{50,})`},
	{words: []string{"AccountKey="}, tail: `([A-Za-z0-9+/]{40,}={0,2})`},
	{words: []string{"eyJ"}, start: true, tail: `([A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)`},
	// Up to its end, or as far as it looks like one: the end may have been cut off.
	{words: []string{"-----BEGIN "}, tail: `[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----((?s:.{16,}?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[\sA-Za-z0-9+/=\\:,-]{16,})`},
	{words: []string{"://"}, tail: `[^\s/:@"'<>]*:([^\s/@"'<>]+)@`, check: literal},
	{words: []string{"bearer"}, fold: true, start: true, tail: `[ \t]+([A-Za-z0-9._~+/-]{16,}=*)`, check: random},
	{words: []string{"authorization"}, fold: true, tail: `["']?[ \t]*[:=][ \t]*["']?(?i:basic|token|apikey|digest)[ \t]+([^\s"',;]{6,})`, check: literal},
	{words: []string{"cookie"}, fold: true, tail: `:[ \t]*([^\s"'=]{1,100}=[^\r\n"']{4,})`, check: literal},
	{words: []string{"password", "passwd", "passphrase", "_pwd", ";pwd"}, fold: true, tail: value, check: assigned},
	{words: []string{"token"}, fold: true, tail: value, check: assignedRandom},
	{words: []string{"secret"}, fold: true, tail: `(?i:[_-]?(?:access[_-]?)?key)?` + value, check: assignedRandom},
	{words: []string{"api", "access", "private"}, fold: true, tail: `(?i:[_-]?key)` + value, check: assignedRandom},
	{words: []string{"credential"}, fold: true, tail: `(?i:s?)` + value, check: assignedRandom},
	{words: []string{"--"}, near: []string{"pass", "token", "secret", "key"}, start: true, tail: `(?i:[a-z-]*(?:password|passwd|passphrase|token|secret|api-?key))[ \t]+["']?([^\s"'&;,<>(){}|` + "`" + `]{3,})`, check: flag},
}

// secretNames are the ends of names whose values are secrets, whatever they look
// like, and of those that say whose account an agent is used with. They are compared
// without case and separators.
var secretNames = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey", "authorization",
	"credential", "credentials", "cookie", "useremail",
}

// secretName reports whether the value of a JSON member with this name is a secret.
func secretName(name string) bool {
	if len(name) < len("token") || len(name) > 64 {
		return false
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, asciiLower(name))
	return !strings.HasSuffix(name, "pagetoken") && slices.ContainsFunc(secretNames, func(end string) bool { return strings.HasSuffix(name, end) })
}

// nameHints are what every secret name has in it.
var nameHints = []string{"pass", "secret", "token", "key", "authorization", "credential", "cookie", "email"}

// everything is the whole table.
func everything() []*secret {
	list := make([]*secret, len(secrets))
	for i := range secrets {
		list[i] = &secrets[i]
	}
	return list
}

// secretsIn returns those whose words occur in a text, and whether there may be
// names of secrets in it.
func secretsIn(text string) (found []*secret, names bool) {
	lower := asciiLower(text)
	for i := range secrets {
		if secrets[i].in(text, lower) {
			found = append(found, &secrets[i])
		}
	}
	return found, containsAny(lower, nameHints)
}

func (s *secret) in(text, lower string) bool {
	if s.near != nil && !containsAny(lower, s.near) {
		return false
	}
	if s.fold {
		return containsAny(lower, s.words)
	}
	return containsAny(text, s.words)
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// maskWith replaces the secrets of these kinds.
func maskWith(list []*secret, text string) string {
	lower := asciiLower(text)
	for _, s := range list {
		if !s.in(text, lower) {
			continue
		}
		for _, word := range s.words {
			text = s.mask(word, text)
		}
		lower = asciiLower(text)
	}
	return text
}

// mask replaces the secrets that follow one of the words.
func (s *secret) mask(word, text string) string {
	hay := text
	if s.fold {
		hay = asciiLower(text)
	}
	var out strings.Builder
	done := 0 // up to here text is in out
	for from := 0; ; {
		at := strings.Index(hay[from:], word)
		if at < 0 {
			break
		}
		at += from
		from = at + len(word)
		if s.start && at > 0 && (wordByte(text[at-1]) || text[at-1] == word[0]) {
			continue
		}
		m := s.match(text[from:])
		if m == nil {
			continue
		}
		begin, end := from+m[2], from+m[3]
		if strings.HasPrefix(text[begin:end], "***") || s.check != nil && !s.check(text, begin, end) {
			// What is no secret as a whole has none in it; but the next word may end in it.
			from = max(from, end-len(word))
			continue
		}
		out.WriteString(text[done:begin])
		out.WriteString("***")
		done, from = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// match looks for a secret at the beginning of a text. It reads on as long as there
// is one, and otherwise not far: a text of nothing but the words that come before
// secrets would take time that grows with its square.
func (s *secret) match(text string) []int {
	s.once.Do(func() { s.expr = regexp.MustCompile(`\A` + s.tail) })
	for size := slack / 2; ; size *= 2 {
		m := s.expr.FindStringSubmatchIndex(text[:min(size, len(text))])
		if m == nil || size >= len(text) || m[1] < size {
			return m
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// random tells what a machine made from words: it has letters and digits.
func random(text string, begin, end int) bool {
	letters, digits := false, false
	for _, c := range []byte(text[begin:end]) {
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters = true
		}
	}
	return letters && digits
}

// literal tells a value from a reference to one: $TOKEN, {{token}}, %TOKEN%, f(x).
func literal(text string, begin, end int) bool {
	if strings.IndexByte("$%*[\\#.", text[begin]) >= 0 {
		return false
	}
	if end < len(text) && (text[end] == '(' || text[end] == '{') {
		return false
	}
	v := asciiLower(text[begin:end])
	return !strings.Contains(v, "environ") && !strings.Contains(v, "process.env") && !strings.Contains(v, "${") && !strings.HasPrefix(v, "env.") && !strings.HasPrefix(v, "env:")
}

// assigned tells a password from a sentence about one: "password: must be long"
// stays, "password=must" does not.
func assigned(text string, begin, end int) bool {
	if !literal(text, begin, end) || placeholder(text[begin:end]) {
		return false
	}
	before := text[begin-1]
	return before == '=' || before == '"' || before == '\'' || !word(text[begin:end])
}

// assignedRandom is for names that code gives to many things.
func assignedRandom(text string, begin, end int) bool {
	return end-begin >= 8 && literal(text, begin, end) && random(text, begin, end)
}

// flag tells a value behind --password from the next word of a sentence or command.
func flag(text string, begin, end int) bool {
	v := text[begin:end]
	return v[0] != '-' && !strings.Contains(v, "=") && literal(text, begin, end) && !placeholder(v) && !word(v)
}

// placeholder reports whether a value says that there is none, or of which type.
func placeholder(v string) bool {
	return slices.Contains([]string{
		"string", "str", "text", "none", "null", "nil", "true", "false", "undefined", "optional", "required", "bytes", "int", "any", "yes", "no",
	}, strings.TrimRight(asciiLower(v), ".:]!?"))
}

// word reports whether a value is letters only, as in a sentence.
func word(v string) bool {
	v = strings.TrimRight(v, ".:!?")
	return !strings.ContainsFunc(v, func(r rune) bool { return r < 'a' || r > 'z' }) ||
		!strings.ContainsFunc(v[min(1, len(v)):], func(r rune) bool { return r < 'a' || r > 'z' }) && v[0] >= 'A' && v[0] <= 'Z'
}

// asciiLower is text in lower case, byte for byte: other letters stay, so that
// places in both are the same.
func asciiLower(text string) string {
	for i := range len(text) {
		if c := text[i]; c >= 'A' && c <= 'Z' {
			lower := []byte(text)
			for ; i < len(lower); i++ {
				if c := lower[i]; c >= 'A' && c <= 'Z' {
					lower[i] = c + 'a' - 'A'
				}
			}
			return string(lower)
		}
	}
	return text
}
