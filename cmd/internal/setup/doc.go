// Package setup changes this machine for Grapnel, and inspects it.
//
//	install/  writes hooks into the settings of agents, and takes them out
//	doctor/   gathers facts and judges them; "grapnel status" is a glance at them
//	verify/   runs a real agent against a fake model
//	bundle/   signed policies from a server
//	manpage/  manual pages of the commands
//
// The format of an agent's settings is in package dialect. Start in install/agents.go, in doctor/judge.go
// for a finding, in verify/check.go for the proofs of an agent.
package setup
