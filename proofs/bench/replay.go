package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	made "github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// replayRecords is how many Records each run of a replay reads.
const replayRecords = 2000

// setupReplay sets up Records that are replayed against a policy: from a file, and from the
// store. The floor decodes the same lines.
func setupReplay(ctx context.Context, s *setup) error {
	root, err := s.root("replay", "")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(served.State(root), 0o700); err != nil {
		return err
	}
	file := filepath.Join(root, "grapnel.yaml")
	text := strings.Replace(policyFile(50, watchNothing), "hooks:", "use: [destructive, secrets]\nhooks:", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file}}, Packs: packs.All(), Always: packs.Always()})
	if set.Files[0].State != load.Valid {
		return fmt.Errorf("the policy is %s: %v", set.Files[0].State, set.Files[0].Errors)
	}
	var lines [][]byte
	for line, err := range made.Lines(ctx, replayRecords, set.Specs, time.Now().Add(-48*time.Hour)) {
		if err != nil {
			return err
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
	if err := made.File(log, all); err != nil {
		return err
	}
	if err := made.Store(local.Place{State: served.State(root)}, all); err != nil {
		return err
	}
	replay := func(args ...string) *series {
		return newSeries("grapnel replay", func() (float64, error) {
			begin := time.Now()
			out, err := exec.CommandContext(ctx, s.exe("grapnel"), append([]string{"replay", "--root", root}, args...)...).CombinedOutput()
			took := inMicroseconds(time.Since(begin))
			if err == nil && !strings.Contains(string(out), "played 2,000 Records") {
				err = errors.New("its output does not confirm that it replayed all Records")
			}
			if err != nil {
				err = fmt.Errorf("grapnel replay: %w\n%s", err, out)
			}
			return took / replayRecords, err
		})
	}
	floor := newSeries("decode", func() (float64, error) {
		begin := time.Now()
		for _, line := range lines {
			var rec struct {
				Event json.RawMessage `json:"event"`
			}
			if err := json.Unmarshal(line, &rec); err != nil {
				return 0, err
			}
		}
		return inMicroseconds(time.Since(begin)) / replayRecords, nil
	})
	s.paths[0].subject, s.paths[0].floor = replay(log), floor
	s.paths[1].subject, s.paths[1].floor = replay(), floor
	return nil
}
