// Package browser tests the page of "grapnel ui" in Chromium, with real programs: hook programs
// that wait for a person, a daemon, and a person who clicks and types. The tests have the build tag
// e2e, because they install programs from npm.
//
//	go test -tags e2e -count=1 ./proofs/browser     # "make browser"
//
// They need the Debian packages chromium and postgresql. CHROMIUM_BIN names another Chromium.
package browser
