//go:build system && unix && !linux

package hostile

const insideVar = "GRAPNEL_HOSTILE_ETC"

// enterMachine is for Linux, where a process can have an /etc of its own.
func enterMachine() {}
