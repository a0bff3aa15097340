// Package internal has parts of the library that users cannot import.
//
//	presets/ rawjson/ seam/        below the root package: rows of the five systems, JSON as it was sent
//	policy/                        below package policy: what matches, conditions, YAML, secrets, state
//	policytest/ replay/ mutate/    tests of policies, recorded events against a policy
//	journal/ spool/                one log in segments; Records in it, and what waits beside it
//	late/ forward/                 hooks after the reply; Records to a server
//	approval/ consent/ pause/      a person decides
//	webhook/ ask/ remote/          servers that are told or asked; webhook/schedule.go has the retry times
//	dryrun/                        what answers in place of programs and servers
//	files/ home/ glob/ wording/    small tools
//	testhelp/                      only for tests
//
// The packages for users are beside this folder; the parts of the programs are in cmd/internal. Start with the
// row of ARCHITECTURE.md that names the subject of your change.
package internal
