// Package policy has the parts of a policy that only Grapnel imports.
//
//	match/               which events a hook wants: each key of match:
//	expr/                conditions: when:
//	prefilter/           what no pattern can match, found without running the patterns
//	secret/ redact/      patterns of secrets, and masking
//	state/               what rules remember of earlier events
//	yaml/                the strict reader, which knows lines and columns
//	fixture/             files for tests
//
// The format itself is in the public package policy, what is in force in policy/load. Start in
// match/key.go for a key.
package policy
