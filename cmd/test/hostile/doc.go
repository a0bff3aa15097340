// Package hostile holds tests that give the real grapnel-hook what it should never
// get: payloads that are broken, huge or made to mislead, a state directory that is
// damaged, streams that are closed, hooks that misbehave.
//
//	go test ./cmd/test/hostile
//
// Whatever happens, no answer allows anything, nothing but an answer reaches standard
// output, the exit code is never 2 by accident, a guard that closes stays closed, and
// all of it takes little time and memory.
package hostile
