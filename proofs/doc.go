// Package proofs shows that Grapnel keeps its promises; it has nothing for users.
//
//	conformance/             cases of the five systems, and two commands that run them
//	e2e/ readers/ browser/   real agents, programs that read our output, Chromium
//	crash/ hostile/ soak/    kills, full disks, wrong clocks, hostile files, long runs
//	bench/ load/ served/     costs and their budgets
//	corpus/ reference/       dangerous and harmless lines, our parsers beside others
//	docs/ api/ weight/       the documentation, the public names, the imports of each package
//	lint/ nofork/ tiers/     the rules of this repository
//
// Tests of one package are beside the package, not here. Start in docs/ for a sentence that a test
// refuses, in e2e/scenarios_test.go for an agent, in weight/ for a forbidden import.
package proofs
