// Package shorten cuts texts that are too long to show.
package shorten

import "strings"

// To returns the text, or its first limit bytes and "…" if it is longer. Bytes that are not
// UTF-8, such as half of the last character, are left out then.
func To[T ~string](text T, limit int) T {
	if len(text) <= limit {
		return text
	}
	return T(strings.ToValidUTF8(string(text[:limit]), "") + "…")
}
