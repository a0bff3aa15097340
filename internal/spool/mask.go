package spool

import (
	"bytes"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Mask replaces text that looks like a secret with ***, and keeps the part that shows its kind:
// sk-ant-***, password=***, Bearer ***. It knows the keys and tokens of common services by their
// prefix, private keys, JSON web tokens, and values that are assigned to a name such as password
// or api_key.
//
// It keeps ordinary text unchanged, including digests and UUIDs, so it does not find secrets that
// look like words.
func Mask(text string) string { return secret.Hide(text) }

// secretNames are the suffixes of names whose values are always secrets, and of names whose
// values identify the account of an agent. They are compared without case and separators.
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

// nameHints lists substrings; every secret name contains at least one.
var nameHints = [...]string{"pass", "secret", "token", "key", "authorization", "credential", "cookie", "email"}

// secretsIn reports whether a text may contain secrets, and names of secrets.
func secretsIn(text string) (secrets, names bool) {
	lower := asciiLower(text)
	return secret.Near(text), slices.ContainsFunc(nameHints[:], func(word string) bool { return strings.Contains(lower, word) })
}

// unescaped returns the text of JSON with decoded escapes, because an escape must not hide a word from
// secretsIn. The result is not JSON.
func unescaped(raw []byte) string {
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return string(raw)
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '\\') {
		b.Write(raw[:i])
		text, size := rawjson.Unescape(raw[i:])
		if size == 0 { // no valid escape
			text, size = '\\', 1
		}
		b.WriteRune(text)
		raw = raw[i+size:]
	}
	b.Write(raw)
	return b.String()
}

// asciiLower returns text with ASCII letters in lower case. Other bytes stay, so that offsets are
// the same in both.
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
