//go:build unix

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// answerOnly compares the answers of programs, without their Output.
var answerOnly = cmpopts.IgnoreFields(grapnel.Outcome{}, "Output")

// If the variable roleVar is set, the test binary acts as a program that hooks of the tests start.
const roleVar = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	process.SandboxMain()
	switch os.Getenv(roleVar) {
	case "":
		await.Main(m)
	case "deserter":
		desert()
	case "worker":
		work(os.Args[1:])
	case "prober":
		probe(os.Args[1:])
	case "sleeper":
		time.Sleep(20 * time.Minute)
	}
}

// desert leaves a child behind. The child is in another session, so the end of the process group
// does not end it, and it holds stdin, stdout and stderr. desert prints the child's process ID; the
// argument decides whether it then ends or hangs.
func desert() {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVar+"=sleeper")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "%d\n", child.Process.Pid)
	fmt.Fprintln(os.NewFile(9, "life"), "here")
	if os.Args[1] == "hang" {
		time.Sleep(20 * time.Minute)
	}
	fmt.Println(`{"decision":"block","reason":"said before"}`)
	os.Exit(0)
}
