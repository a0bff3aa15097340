//go:build system

package offline_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

var level offline.Level

// exitVar makes this test binary exit with that status instead of testing.
const exitVar = "OFFLINE_TEST_EXIT"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		flag.Parse()
		var exit int
		var done bool
		if level, exit, done = offline.Enter(); done {
			return exit
		}
		if status, err := strconv.Atoi(os.Getenv(exitVar)); err == nil {
			return status
		}
		fmt.Println("network:", level)
		return m.Run()
	}())
}

func TestLoopbackWorks(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// The level must be true: a namespace has only loopback.
func TestLevelIsTrue(t *testing.T) {
	t.Parallel()
	if offline.Entered() != (level == offline.Namespace) {
		t.Fatalf("Entered() = %v at level %q", offline.Entered(), level)
	}
	if level != offline.Namespace {
		return
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			t.Errorf("interface %s is up inside the namespace", i.Name)
		}
	}
}

// If the copy fails, the original must fail. Otherwise every end-to-end test would pass.
func TestExitStatusComesThrough(t *testing.T) {
	t.Parallel()
	const want = 7
	cmd := exec.Command(os.Args[0])
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GRAPNEL_E2E_OFFLINE=") })
	cmd.Env = append(cmd.Env, exitVar+"="+strconv.Itoa(want))
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("the copy exits %d, the original %d: %v\n%s", want, got, err, out)
	}
}
