// Package fault breaks programs on purpose, in builds with the tag "faults":
//
//	fault.At("serve: an answer is kept")
//
// In all other builds At is empty and On is the constant false, so that release binaries contain no trace of it. If
// the name of a point is not a constant, put the call behind "if fault.On".
// The environment sets the behavior of a build with faults:
//
//	GRAPNEL_FAULT_KILL=POINT[*N]     kill this process when it reaches a point for the Nth time
//	GRAPNEL_FAULT_SLEEP=POINT=TIME   sleep at a point, each time
//	GRAPNEL_FAULT_CLOCK=FILE         set the clock ahead by the duration in FILE
//	GRAPNEL_FAULT_PROFILE=FILE       write a CPU profile to FILE until the process gets SIGTERM
//	GRAPNEL_FAULT_SEEN=FILE          append a line to FILE when a point is reached the first time
package fault
