// Package policytest tests policies: the files *_test.yaml that stand beside them, and the
// parts that tests written in Go are made of.
//
//	file, errs := policytest.Read("grapnel_test.yaml")
//	results := policytest.Run(ctx, file.Tests, nil)
//
// A policy is loaded as grapnel-hook loads it, packs and hook files of other systems
// included; see [Load]. Events are told as each agent tells them, by its dialect, and what
// is judged is what grapnel-hook would answer. Programs are started, in a directory of
// their own, unless the test says what they answer; a server is never asked.
//
// A test has a clock of its own, by which limits and what is remembered go. It stands still
// but where the test says that something happens later.
//
// A test stands for itself: what one test makes a policy remember no other one sees, so
// that neither their order nor how many run at once changes a result.
//
// The package prints nothing. It is no part of what agents run.
package policytest
