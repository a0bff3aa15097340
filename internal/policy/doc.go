// Package policy has the parts of a policy that only Grapnel imports.
//
//	match/               which events a hook wants: each key of match:
//	expr/                conditions: when:
//	prefilter/           what no pattern can match, found without running the patterns
//	secret/              known secrets; their patterns are in packs/secrets.toml, for all uses, and in
//	                     records.toml, for Records only
//	redact/              the key redact: of policies; what all Records mask is in internal/spool/mask.go
//	state/               what rules remember of earlier events
//	yaml/                the strict reader, which knows lines and columns
//	fixture/             files for tests
//
// The format itself is in the public package policy, the policies in force in policy/load. Start in
// match/key.go for a key.
package policy
