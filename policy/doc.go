// Package policy loads policy files and turns their hooks into Specs.
//
// [Parse] reads one file and reports all its errors, with line and column. Programs call [Load]: it
// reads all policy files and stores the last valid content of each as a snapshot. If a file becomes
// invalid, its last valid content stays active, so a typo cannot disable a rule.
//
//	set := policy.Load(policy.Request{Files: files, Snapshots: dir, Command: newCommand})
//	engine, err := grapnel.New(set.Specs, nil)
//
// The package starts no programs. The caller provides the functions that build the hooks of `run:`
// and `worker:` actions.
package policy
