package wording

import (
	"fmt"
	"strings"
)

// Nearest returns a hint with the known word that is most similar to a mistyped word, or "" if no
// word is similar.
func Nearest(word string, known []string) string {
	best := NearestWord(word, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// NearestWord returns the known word that is most similar to a mistyped word, or "" if no word is
// similar.
func NearestWord(word string, known []string) string {
	return NearestWithin(word, known, 1+len(word)/3)
}

// NearestWithin returns the known word that is most similar to a word, or "" if each needs more than the given
// number of changes.
func NearestWithin(word string, known []string, distance int) string {
	if len(word) > 64 {
		return "" // too long for a typing error, and slow to compare
	}
	best, word := "", strings.ToLower(word)
	var rows []int
	for _, k := range known {
		if max(len(word)-len(k), len(k)-len(word)) > distance {
			continue // each change adds or removes at most one byte
		}
		lower := strings.ToLower(k)
		if n := 3 * (len(lower) + 1); n > len(rows) {
			rows = make([]int, n)
		}
		if d := editDistance(word, lower, rows); d <= distance {
			best, distance = k, d-1
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbors that turn a
// into b. It uses rows, which has room for three rows of len(b)+1.
func editDistance(a, b string, rows []int) int {
	n := len(b) + 1
	before, last, row := rows[:n], rows[n:2*n], rows[2*n:3*n]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
