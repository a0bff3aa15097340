package policy

// Seal and Unseal are for tests that spoil what is kept.
var (
	Seal   = seal
	Unseal = unseal
)
