package install

import (
	"crypto/rand"
	"encoding/base32"
)

var tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newToken returns 128 random bits as 26 characters of a-z and 2-7.
//
// A project can repeat the text of an installed command in its own settings, so that the agent
// runs the project's weaker copy. The token makes the text unpredictable. It is not secret from
// the model, which may read the settings.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return tokenEncoding.EncodeToString(b[:])
}
