// Package hooktest is for tests of hooks, policies, workers and dialects.
//
// Fire an event, and say what is expected in one line; what fails prints the event, the
// Verdict and what each hook said, so that nobody has to run it again:
//
//	hooktest.Blocks(t, hooktest.Shell("git push --force"), spec)
//	hooktest.Passes(t, hooktest.Shell("git push"), spec)
//
// A policy file becomes an engine as grapnel-hook would make one, and is tested in the
// same words:
//
//	engine := hooktest.Policy(t, "grapnel.yaml", nil)
//	hooktest.Blocks(t, hooktest.Write("deploy/prod/app.yaml", "replicas: 0"), engine)
//	reply := hooktest.Agent(t, engine, "claude-code", payload) // the bytes that the agent gets
//
// Whoever writes a kind of hook, a program that is kept running, or a language of an agent
// runs its suite: [TestHook], [TestWorker], [TestDialect]. [OnlyImports] and
// [NeverImports] keep a package light.
//
// There are no mocks: hooks run in a real engine, programs are started, files are read.
// What a policy would send over a network is left out. The package replaces no test
// framework: [Fire] returns plain data for all that the few words here do not say. It is
// for tests only, and nothing else imports it.
package hooktest
