//go:build system && unix && !linux

package hostile

const insideVar = "GRAPNEL_HOSTILE_ETC"

// enterMachine is only for Linux, where a process can have its own /etc.
func enterMachine() {}
