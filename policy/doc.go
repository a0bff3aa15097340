// Package policy reads the policy format and turns the hooks of a policy into Specs.
//
// [Parse] reads one file and reports all its errors, with line and column. [Build] makes the Specs of
// a parsed policy. [Rules] does both for rules that are a part of a program.
//
// The format is one of three rooms. Each room imports only those below it:
//
//   - package load knows which policies are in force on a machine: files, packs, snapshots, trust, grants
//   - this package knows the meaning of its keys
//   - package state remembers earlier events for rules: limits, `after:`, files of the session
//
// Package policyfile holds the content of a policy as plain data, for all of them. A new key starts in
// the table of actions in action.go, or in the keys of a hook in parse.go.
//
// The package starts no programs. The caller provides the functions that build the hooks of `run:`
// and `worker:` actions.
package policy
