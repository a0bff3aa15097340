// Package state remembers the facts of earlier events that rules need.
//
// limit.go counts for `limit:`, after.go keeps marks for `after:`, same.go compares two events,
// and sessionpast.go knows which files a session changed, made and moved. All of it is stored by a
// [Counter]. The package knows no file format: package policy reads the keys and builds the hooks.
package state
