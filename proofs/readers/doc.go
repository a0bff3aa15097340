// Package readers tests Grapnel's output with the programs that read it: shells complete commands,
// an editor's language server marks mistakes in policies, validators read reports, Prometheus
// reads metrics, Node.js runs handlers in TypeScript. The tests have the build tag e2e, because
// they install programs from npm.
//
//	go test -tags e2e -count=1 ./proofs/readers     # "make readers"
//
// A test of a program that this machine lacks is skipped, and the first lines of the output name
// the program and how to install it.
package readers
