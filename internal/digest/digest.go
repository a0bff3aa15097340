// Package digest identifies contents by their SHA-256.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Len is the length of a digest in characters.
const Len = 2 * sha256.Size

// Of returns the SHA-256 of data in lower-case hex.
func Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Valid reports whether s has the form of a digest. Digests become file names, and another string
// could be a path to another directory.
func Valid(s string) bool {
	return len(s) == Len && strings.Trim(s, "0123456789abcdef") == ""
}
