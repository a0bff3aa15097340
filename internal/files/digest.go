package files

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// DigestLen is the length of a digest in characters.
const DigestLen = 2 * sha256.Size

// Digest returns the SHA-256 of data in lower-case hex.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// IsDigest reports whether s has the form of a digest. Digests become file names, and another string
// could be a path to another directory.
func IsDigest(s string) bool {
	return len(s) == DigestLen && strings.Trim(s, "0123456789abcdef") == ""
}
