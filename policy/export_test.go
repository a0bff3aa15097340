package policy

// Seal and Unseal are for tests that spoil what is kept.
var (
	Seal   = seal
	Unseal = unseal
)

// MatchKeys lists the names of matchKeys.
func MatchKeys() []string {
	var names []string
	for i := range matchKeys {
		names = append(names, matchKeys[i].name)
	}
	return names
}
