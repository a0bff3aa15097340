// Package offline takes the network away from a test binary, so that whatever the
// tests start can reach nothing but this machine's loopback.
//
// A TestMain prepares what needs the network and then calls Enter:
//
//	if !offline.Entered() {
//		... // download, build
//	}
//	level, exit, done := offline.Enter()
//	if done {
//		return exit // the tests ran in a copy of this process
//	}
//	fmt.Println("network:", level)
//	return m.Run()
//
// On Linux Enter starts the test binary once more, in a network namespace of its
// own. It needs no program and no privilege for that, but the system may forbid
// it; then, and on other systems, the tests run where they are and only their
// own care (a proxy that refuses everything) keeps them from the network.
package offline

import "os"

// A Level says how the network is kept away.
type Level string

// The levels, the better one first.
const (
	Namespace Level = "network namespace"
	ProxyOnly Level = "closed proxy only"
)

// marker is the environment variable by which a copy knows what it is.
const marker = "GRAPNEL_E2E_OFFLINE"

const (
	markProbe = "probe" // bring up loopback and exit: does it work here?
	markRun   = "run"   // bring up loopback and run the tests
)

// Entered reports whether this process is a copy that Enter started.
func Entered() bool { return os.Getenv(marker) != "" }

// Enter runs this program again without a network, with the same arguments,
// environment and standard streams, and returns its exit status and done = true.
// In that copy, and where no such copy can be had, done is false, and level tells
// what is in force for this process.
//
// Enter must be called before the process has started anything that a copy must
// not repeat.
func Enter() (level Level, exit int, done bool) { return enter() }
