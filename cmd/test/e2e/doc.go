// Package e2e shows that Grapnel does what it promises inside real agents: its
// tests, behind the build tag e2e, install the agents from npm, put Grapnel into
// them with "grapnel install", run them against a fake model on loopback, and look
// at what really happened: which files were written, and what the model was told.
//
//	go test -tags e2e -count=1 ./cmd/test/e2e     # "make e2e"
//
// So do tests of what is written for other programs: a shell completes, an editor's
// language server marks mistakes, validators read reports, with the real ones.
//
// The agents are driven by package verify. Of the packages below, agents and tools install
// what is run, by npm, and offline takes the network away. The dialects' details are not tested
// here; that is what the recordings in package dialect are for.
package e2e
