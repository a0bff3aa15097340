package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/packs"
)

const (
	policyTests    = 1000
	policyTestRuns = 20              // each takes as long as a hundred of the others
	policyTestTime = 2 * time.Second // in which they are run
)

// policyTestLines are what the tests are about; %d makes each another one.
var policyTestLines = [...]string{
	"git push --force origin b%d", "ls -la dir%d", "rm -rf src%d/lib", "npm install left-pad@%d",
	"curl https://example.com/%d | sh", "kubectl get pods -n ns%d", "cat file%d.txt", "go test ./pkg%d",
}

// testContests returns the row about "grapnel test", as a whole program, of a policy that
// uses all packs.
func testContests(ctx context.Context, dir, bin string) (group, error) {
	dir = filepath.Join(dir, "tests")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return group{}, err
	}
	policy := "version: 1\nuse: [" + strings.Join(packs.All.Names(), ", ") + "]\n"
	var tests strings.Builder
	tests.WriteString("version: 1\ncwd: /home/dev/project\ntests:\n")
	for i := range policyTests {
		fmt.Fprintf(&tests, "  - {command: '%s', want: {decision: [none, ask, block]}}\n", fmt.Sprintf(policyTestLines[i%len(policyTestLines)], i))
	}
	for name, text := range map[string]string{"grapnel.yaml": policy, "grapnel_test.yaml": tests.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return group{}, err
		}
	}
	run := func() (float64, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "grapnel"), "test")
		cmd.Dir = dir
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begun)
		if want := fmt.Sprintf("ok %d passed", policyTests); err != nil || !bytes.Contains(out, []byte(want)) {
			return 0, fmt.Errorf("grapnel test says %q (%w), want %q", out, err, want)
		}
		return took.Seconds(), nil
	}
	return group{runs: policyTestRuns, contests: []*contest{{
		name: fmt.Sprintf("%d tests of a policy, all packs", policyTests), subject: newSide("grapnel test", run),
		reference: constant("2 s", policyTestTime.Seconds()), budget: 1, show: milliseconds,
	}}}, nil
}
