// Package hostile holds tests that give the real grapnel-hook invalid input: broken, huge or
// misleading payloads, a damaged state directory, closed streams, and hooks that misbehave.
//
//	go test ./proofs/hostile
//
// In every case, no answer allows the action, standard output contains only an answer, the
// exit code is never 2 by accident, a guard that fails closed blocks, and the run takes little
// time and memory.
package hostile
