// Package hooktest is for tests of hooks, policies, workers and dialects.
//
// Fire an event and check the expected result in one line. A failure prints the event, the Verdict
// and each hook's outcome, so that you need not run the test again:
//
//	hooktest.Blocks(t, hooktest.Shell("git push --force"), spec)
//	hooktest.Passes(t, hooktest.Shell("git push"), spec)
//
// Policy loads a policy file into an engine as grapnel-hook does. The same functions test it:
//
//	engine := hooktest.Policy(t, "grapnel.yaml", nil)
//	hooktest.Blocks(t, hooktest.Write("deploy/prod/app.yaml", "replicas: 0"), engine)
//	reply := hooktest.Agent(t, engine, "claude-code", payload) // the bytes that the agent receives
//
// If you write a kind of hook, a worker program, or a dialect, run its suite: [TestHook],
// [TestWorker], [TestDialect]. [OnlyImports] and [NeverImports] limit the imports of a package.
//
// hooktest has no mocks: it runs hooks in a real engine, starts programs, and reads files. It only
// omits requests that a policy would send over a network. The package does not replace a test
// framework: [Fire] returns plain data for checks beyond the functions here. Use it only in tests;
// no other package imports it.
package hooktest
