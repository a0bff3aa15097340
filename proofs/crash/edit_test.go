//go:build system

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// An editor saves the policy in place, in two halves. The first half is a valid policy without its
// last rule. No event may be judged by it, with and without a daemon, and a later broken file keeps
// the whole policy in force, not the half. A settled change is in force.
func TestHalfSaved(t *testing.T) {
	t.Parallel()
	for name, daemon := range map[string]bool{"daemon": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, canary, _ := strings.Cut(policy, "  - name: canary")
			canary = "  - name: canary" + canary
			before += "  - {name: first, on: tool.before, match: {command: grapnel-no-such-command}, block: No.}\n"
			tr := trialOf(t, root(t), before+canary)
			file := filepath.Join(tr.root, "grapnel.yaml")
			if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
			if daemon {
				start(t, tr)
			}
			ask := func(id string) error { return tr.askHook(t.Context(), id, "grapnel-crash-canary", true) }
			if err := ask("toolu_first"); err != nil {
				t.Fatal(err)
			}
			asking, stop := context.WithCancel(t.Context())
			defer stop()
			var wait sync.WaitGroup
			for i := range hooks {
				wait.Go(func() { tr.hook(asking, i) })
			}
			for i := range callers {
				if daemon {
					wait.Go(func() { tr.call(asking, i) })
				}
			}
			var slowest time.Duration
			save := func(half, rest string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(half), 0o600); err != nil {
					t.Fatal(err)
				}
				before, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
				f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(rest); err != nil {
					t.Fatal(err)
				}
				after, err := f.Stat()
				if err != nil {
					t.Fatal(err)
				}
				slowest = max(slowest, after.ModTime().Sub(before.ModTime()))
			}
			for n := range 100 {
				save(before+fmt.Sprintf("# edit %d\n", n), canary)
				if n%10 == 9 {
					time.Sleep(200 * time.Millisecond) // this one settles
				}
			}
			save(before, "  - {broken")
			time.Sleep(300 * time.Millisecond)
			if err := ask("toolu_broken"); err != nil {
				t.Errorf("after a half and a broken rest: %v", err)
			}
			stop()
			wait.Wait()
			if err := tr.broken(); err != nil && slowest > 100*time.Millisecond {
				t.Logf("on this busy machine a half was in the file for %v, so it counted: %v", slowest, err)
			} else if err != nil {
				t.Error(err)
			}
			given, _ := tr.given()
			t.Logf("%d answers", given)
			save(before, "")
			time.Sleep(300 * time.Millisecond)
			if err := tr.askHook(t.Context(), "toolu_settled", "grapnel-crash-canary", false); err != nil {
				t.Errorf("a settled change is not in force: %v", err)
			}
		})
	}
}
