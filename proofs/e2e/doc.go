// Package e2e tests that Grapnel works inside real agents. Its tests, behind the build tag e2e,
// install the agents from npm, install Grapnel into them with "grapnel install", run them against
// a fake model on loopback, and check the results: the files that were written and the requests
// to the model.
//
//	go test -tags e2e -count=1 ./proofs/e2e     # "make e2e"
//
// Package verify drives the agents. Of the packages below, agents installs them with npm, and
// offline disables the network. The recordings in package dialect test the details of the
// dialects, so these tests do not. Package readers tests the output for other programs.
package e2e
