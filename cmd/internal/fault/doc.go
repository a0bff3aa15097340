// Package fault breaks programs on purpose, in builds with the tag "faults":
//
//	if fault.On {
//		fault.At("store: before the commit")
//	}
//
// In all others On is false, a constant, so that no trace of it is left in what is shipped.
// What a build with faults does, its environment says:
//
//	GRAPNEL_FAULT_KILL=POINT[*N]     kill this process at a point, when it comes there the Nth time
//	GRAPNEL_FAULT_SLEEP=POINT=TIME   wait there, each time
//	GRAPNEL_FAULT_CLOCK=FILE         the clock is ahead by the duration that is written in FILE
//	GRAPNEL_FAULT_PROFILE=FILE       write a CPU profile there until the process is told to end
//	GRAPNEL_FAULT_SEEN=FILE          add a line to FILE for each point that is passed the first time
package fault
