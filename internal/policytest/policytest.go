// Package policytest tests policies. It reads and runs the test files *_test.yaml next to
// policies, and provides the parts for tests in Go.
//
//	file, errs := policytest.Read("grapnel_test.yaml")
//	results, err := policytest.Run(ctx, file.Tests, nil)
//
// It loads a policy like grapnel-hook, including packs and hook files of other systems; see
// [Load]. The dialect of each agent converts the events, and the tests check the result that
// grapnel-hook would return. Programs run in a separate directory, unless the test gives their
// answers. Tests never contact a server.
//
// A test has a separate clock for limits and stored state. The clock only moves if the test gives
// a time between two events.
//
// Tests are independent: no test sees the state of another one, so that neither their order nor
// the number of parallel tests changes a result.
//
// The package prints nothing. It is not part of the programs that agents run.
package policytest
