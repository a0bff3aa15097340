// Package wording shortens texts for people, and finds the word that they meant. Text for a terminal is
// made safe by cmd/internal/show/printable.
package wording

import "strings"

// Shorten returns the text, or its first limit bytes and "…" if it is longer. Bytes that are not
// UTF-8, such as half of the last character, are left out then.
func Shorten[T ~string](text T, limit int) T {
	if len(text) <= limit {
		return text
	}
	return T(strings.ToValidUTF8(string(text[:limit]), "") + "…")
}
