// Package workbench has the tools of authors of policies.
//
//	check/ format/ review/  faults of a file, its form, its changes for a reviewer
//	explain/ hooks/         why an event got its verdict; which hooks there are
//	staging/                a new policy runs beside the old one on the same events
//	allow/                  an exception for what was blocked, now or always
//	testwatch/              runs tests again when a file changes
//
// The format of policies is in package policy, tests of policies in internal/policytest, recorded events
// in internal/replay. Start in the file with the name of its package.
package workbench
