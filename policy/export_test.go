package policy

import (
	"github.com/grapnel-dev/grapnel/internal/policy/match"
)

// MatchKeys lists the names of the match keys.
func MatchKeys() []string {
	var names []string
	for i := range match.Keys {
		names = append(names, match.Keys[i].Name)
	}
	return names
}

// ActionNames lists the keys of the actions.
func ActionNames() (names []string) {
	for _, a := range actions {
		names = append(names, a.name)
	}
	return names
}

// A KeyHint is a row of the hints for unknown keys.
type KeyHint struct{ What, Words, Hint string }

// Meant lists the hints for unknown keys.
func Meant() (rows []KeyHint) {
	for _, row := range meant {
		rows = append(rows, KeyHint{row.what, row.words, row.hint})
	}
	return rows
}
