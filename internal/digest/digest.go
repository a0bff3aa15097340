// Package digest names contents by their SHA-256.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Len is the length of a digest.
const Len = 2 * sha256.Size

// Of returns the SHA-256 of data in lower-case hex.
func Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Valid reports whether s has the form of a digest. Digests name files, so that
// anything else could be a path to another place.
func Valid(s string) bool {
	return len(s) == Len && strings.Trim(s, "0123456789abcdef") == ""
}
