// Package offline disables the network for a test binary, so that the programs that the tests
// start can only reach the loopback interface.
//
// A TestMain calls Main with the steps that need the network:
//
//	func TestMain(m *testing.M) { os.Exit(offline.Main(m, install, notRun)) }
//
// On Linux, Enter starts the test binary again in a separate network namespace. This needs no
// program and no privilege, but the system may forbid it. In that case, and on other systems, the
// tests run without a namespace, and only a proxy that refuses every connection keeps them from
// the network.
package offline

import "os"

// A Level names how the network is blocked.
type Level string

// The levels. The stronger one comes first.
const (
	Namespace Level = "network namespace"
	ProxyOnly Level = "closed proxy only"
)

// marker names the environment variable that identifies a copy and its task.
const marker = "GRAPNEL_E2E_OFFLINE"

const (
	markProbe = "probe" // bring up loopback and exit, to test whether namespaces work here
	markRun   = "run"   // bring up loopback and run the tests
)

// Entered reports whether this process is a copy that Enter started.
func Entered() bool { return os.Getenv(marker) != "" }

// Enter runs this program again without a network, with the same arguments, environment and
// standard streams, and returns its exit status and done = true. In that copy, and on systems
// without such a copy, done is false, and level is the protection of this process.
//
// Call Enter before any work that the copy must not repeat.
func Enter() (level Level, exit int, done bool) { return enter() }
