// Package internal has the work of the two programs; their commands have only flags and printing.
//
//	hookcmd/    one event becomes one reply, in a new process or in the daemon
//	daemon/     the process that stays: engine, store, deliveries, metrics
//	setup/      what changes a machine or looks at it: install, doctor, verify, signed policies
//	workbench/  what authors of policies use: check, fmt, explain, review, allow
//	show/       what people see: Records, tables, the page, the log
//	cli/        the console, usage errors and hints, for all commands
//
// Policies, hooks and agents are in the library. Start in hookcmd/answer.go for the reply to an agent, and
// in cmd/grapnel/NAME.go for a command: it has the text that people see, and names its package.
package internal
