package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/test/records"
	"github.com/grapnel-dev/grapnel/test/served"
)

// What a replay is held to: 100,000 Records in 10 s, of which a part is measured.
const (
	replayRecords = 20_000
	replayBudget  = 10.0 / 100_000 // seconds for one
	replayRuns    = 3
)

// replayContests are the rows about Records that are played against a policy: from the store,
// and from a file.
func replayContests(ctx context.Context, dir, bin string) (group, error) {
	root := filepath.Join(dir, "replay")
	if err := os.MkdirAll(served.State(root), 0o700); err != nil {
		return group{}, err
	}
	file := filepath.Join(root, "grapnel.yaml")
	text := strings.Replace(policyFile(50, watchNothing), "hooks:", "use: [destructive, secrets]\nhooks:", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return group{}, err
	}
	set := policy.Load(policy.Request{Files: []policy.File{{Path: file}}, Packs: packs.All, Always: packs.Always})
	if set.Files[0].State != policy.Valid {
		return group{}, fmt.Errorf("the policy is %s: %v", set.Files[0].State, set.Files[0].Errors)
	}
	var lines [][]byte
	for line, err := range records.Lines(ctx, replayRecords, set.Specs, time.Now().Add(-48*time.Hour)) {
		if err != nil {
			return group{}, err
		}
		lines = append(lines, line)
	}
	all := func(yield func([]byte, error) bool) {
		for _, line := range lines {
			if !yield(line, nil) {
				return
			}
		}
	}
	log := filepath.Join(root, "records.jsonl")
	if err := records.File(log, all); err != nil {
		return group{}, err
	}
	if err := records.Store(ctx, filepath.Join(served.State(root), "store"), all); err != nil {
		return group{}, err
	}
	play := func(args ...string) func() (float64, error) {
		return func() (float64, error) {
			begin := time.Now()
			out, err := exec.CommandContext(ctx, served.Exe(bin, "grapnel"), append([]string{"replay", "--root", root}, args...)...).CombinedOutput()
			if took := time.Since(begin).Seconds(); err == nil && strings.Contains(string(out), "played 20,000 Records") {
				return took / replayRecords, nil
			}
			return 0, fmt.Errorf("grapnel replay: %w\n%s", err, out)
		}
	}
	row := func(from string, run func() (float64, error)) *contest {
		return &contest{
			name: "replay, Records from " + from, subject: newSide("replay", run), reference: constant("10 s / 100,000", replayBudget), budget: 1,
			show: func(seconds float64) string { return fmt.Sprintf("%.0f /s", 1/seconds) },
		}
	}
	return group{runs: replayRuns, contests: []*contest{row("the store", play()), row("a file", play(log))}}, nil
}
