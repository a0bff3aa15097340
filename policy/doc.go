// Package policy turns files of hooks into Specs.
//
// [Parse] reads one file and says everything that is wrong with it, with line and
// column. [Load] is what programs use: it reads the files in force, keeps the last
// valid content of each as a snapshot, and never lets a typo open a gate.
//
//	set := policy.Load(policy.Request{Files: files, Snapshots: dir, Command: newCommand})
//	engine, err := grapnel.New(set.Specs, nil)
//
// The package starts no programs: how a `run:` or a `worker:` becomes a hook is the
// caller's.
package policy
