// Package testhelp has tools that only tests import.
//
//	await/         waits for a condition, with a limit that no busy machine reaches
//	rapid/         property tests: values that shrink
//	pty/           pseudo terminals
//	postgrestest/  a real PostgreSQL for one test
//	readme/        compares the output of an example with its page
//	scramble/      changes all data that a value refers to
//
// The kit for authors of hooks is the public package hooktest.
package testhelp
