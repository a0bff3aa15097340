// Package setup has what changes this machine for Grapnel, and what looks at it.
//
//	install/  writes hooks into the settings of agents, and takes them out
//	doctor/   gathers facts and judges them; "grapnel status" is a glance at them
//	verify/   runs a real agent against a fake model
//	bundle/   signed policies from a server
//	manpage/  manual pages of the commands
//
// What an agent's settings look like is in package dialect. Start in install/agents.go, in doctor/judge.go
// for a finding, in verify/check.go for what an agent must prove.
package setup
