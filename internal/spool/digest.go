package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// digestOf returns the SHA-256 of data in lower-case hex.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isDigest reports whether s has the form of a digest. Digests name files, so that
// anything else could be a path to another place.
func isDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
