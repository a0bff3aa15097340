// Package load finds the policies that are in force.
//
// [Policies] reads all policy files and stores the last valid content of each as a snapshot. If a
// file becomes invalid, its last valid content stays active, so a typo cannot disable a rule.
//
//	set := load.Policies(load.Request{Files: files, Snapshots: dir, Command: newCommand})
//	engine, err := grapnel.New(set.Specs, nil)
//
// load.go has the order of the steps. trust.go and pin.go guard the policies of projects, grant.go what
// they may do, packs.go the packs. snapshot.go keeps the last valid contents, compiled.go is the form in which
// they are stored, and codec.go its bytes. foreign_find.go and foreign_build.go have the hook files of
// other systems, which package systems reads. The meaning of a key is in package policy.
package load
