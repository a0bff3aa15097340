package spool

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/secret"
)

// Mask replaces what looks like a secret with ***, and keeps what says which kind
// it was: sk-ant-***, password=***, Bearer ***. It knows the keys and tokens of
// common services by their prefix, private keys, JSON web tokens, and values that
// are assigned to a name such as password or api_key.
//
// It is made to keep ordinary text as it is, digests and UUIDs included, so it
// finds no secret that looks like a word.
func Mask(text string) string { return secret.Hide(text) }

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
var nameHints = [...]string{"pass", "secret", "token", "key", "authorization", "credential", "cookie", "email"}

// secretsIn reports whether there may be secrets in a text, and names of secrets.
func secretsIn(text string) (secrets, names bool) {
	lower := asciiLower(text)
	return secret.Near(text), slices.ContainsFunc(nameHints[:], func(word string) bool { return strings.Contains(lower, word) })
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
