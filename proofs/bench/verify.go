package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	made "github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/local"
)

// verifyRecords is how many Records each run of "grapnel log verify" checks.
const verifyRecords = 20_000

// setupVerify sets up "grapnel log verify", as a whole program, for a log of sealed segments. The floor is the SHA-256 of
// the same bytes.
func setupVerify(ctx context.Context, s *setup) error {
	root, err := s.root("verify", policyFile(1, watchNothing))
	if err != nil {
		return err
	}
	place := local.Place{State: served.State(root)}
	if err := made.Store(place, made.Lines(ctx, verifyRecords, nil, time.Now().Add(-48*time.Hour))); err != nil {
		return err
	}
	if _, err := journal.Seal(place.Journal()); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(place.Journal(), "0*.jsonl"))
	if err != nil {
		return err
	}
	s.paths[0].subject = newSeries("grapnel log verify", func() (float64, error) {
		begin := time.Now()
		out, err := exec.CommandContext(ctx, s.exe("grapnel"), "log", "verify", "--root", root).CombinedOutput()
		took := inMicroseconds(time.Since(begin))
		if err == nil && !strings.Contains(string(out), fmt.Sprintf("%d Records in %d segments: none was changed", verifyRecords, len(names))) {
			err = errors.New("its output does not confirm that it checked all Records")
		}
		if err != nil {
			err = fmt.Errorf("grapnel log verify: %w\n%s", err, out)
		}
		return took / verifyRecords, err
	})
	s.paths[0].floor = newSeries("SHA-256", func() (float64, error) {
		begin := time.Now()
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return 0, err
			}
			sha256.Sum256(text)
		}
		return inMicroseconds(time.Since(begin)) / verifyRecords, nil
	})
	return nil
}
