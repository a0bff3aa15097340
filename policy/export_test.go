package policy

// AddChecksum and CheckChecksum are for tests that spoil what is kept.
var (
	AddChecksum   = addChecksum
	CheckChecksum = checkChecksum
)

// MatchKeys lists the names of matchKeys.
func MatchKeys() []string {
	var names []string
	for i := range matchKeys {
		names = append(names, matchKeys[i].name)
	}
	return names
}
