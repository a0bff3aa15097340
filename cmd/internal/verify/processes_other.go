//go:build !linux

package verify

// endProcesses does nothing here: without /proc nobody tells which processes were
// started with the environment of this world.
func (*World) endProcesses(string) error { return nil }
