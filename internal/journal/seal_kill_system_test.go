//go:build system

package journal_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// keeperVar makes a test process work on the manifest of a directory.
const keeperVar = "GRAPNEL_TEST_KEEPER"

// keeperPoints are the points between two steps of such a process.
var keeperPoints = []string{
	"journal: before the manifest line", "journal: after the manifest line", "journal: before a file is removed",
	"journal: before the head", "journal: before the head has its name", "journal: after the head",
}

// keptLimits remove what is more than a few segments.
var keptLimits = journal.Limits{MaxRecords: 300}

// TestKeeper is the process that TestManifestKills kills. It prints a line for each step.
func TestKeeper(t *testing.T) {
	dir, kind, ok := strings.Cut(os.Getenv(keeperVar), "|")
	if !ok {
		t.Skip("it is a part of TestManifestKills")
	}
	k := &journal.HeadKeeper{Dir: dir}
	for {
		var err error
		switch kind {
		case "seal":
			_, err = journal.Seal(dir)
		case "retire":
			_, err = journal.Retire(dir, keptLimits, time.Now())
		case "head":
			err = k.Save()
		}
		if err != nil && !errors.Is(err, journal.ErrBusy) {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		if _, err := fmt.Println("step"); err != nil {
			os.Exit(0) // the test has ended
		}
	}
}

// life runs a test process until it is killed, at random or at a point. Then it returns the lines that the
// process printed.
func life(t *testing.T, test, env, point string, until int) (lines []string) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env)
	if point != "" {
		cmd.Env = append(cmd.Env, "GRAPNEL_FAULT_KILL="+point)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if len(lines) == until {
			time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
		if strings.HasPrefix(in.Text(), "failed") {
			t.Errorf("%s, %s: %s", test, env, in.Text())
		}
		lines = append(lines, in.Text())
	}
	_ = cmd.Wait() // it was killed
	if cmd.ProcessState.Exited() {
		t.Errorf("%s, %s: it ended by itself: %v", test, env, cmd.ProcessState)
	}
	return lines
}

// Processes that append, seal, remove and save heads at the same time are killed, at random times and in a
// build with faults also between two steps. Verify has no finding, at any time. All accepted lines are in the
// log or in a removed segment.
//
// chaos: clients
func TestManifestKills(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]string{"removals": {"seal", "retire", "head"}, "no removals": {"seal", "seal", "head"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "journal")
			var mu sync.Mutex
			accepted := map[string]bool{}
			kills := 0
			const lives = 40
			var appenders, keepers sync.WaitGroup
			for n := range 2 {
				appenders.Go(func() {
					for i := range lives {
						ids := life(t, "TestAppender", fmt.Sprintf("%s=%s|%d.%d", appenderVar, dir, n, i), "", 1+rand.IntN(60))
						mu.Lock()
						kills++
						for _, id := range ids {
							accepted[id] = true
						}
						mu.Unlock()
					}
				})
			}
			ended := make(chan struct{})
			for _, kind := range kinds {
				keepers.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-ended:
							return
						default:
						}
						point := ""
						if fault.On && i%3 > 0 {
							point = fmt.Sprintf("%s*%d", keeperPoints[rand.IntN(len(keeperPoints))], 1+rand.IntN(3))
						}
						life(t, "TestKeeper", keeperVar+"="+dir+"|"+kind, point, rand.IntN(30))
						mu.Lock()
						kills++
						mu.Unlock()
					}
				})
			}
			keepers.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
						time.Sleep(time.Millisecond)
					}
					r, err := journal.Verify(t.Context(), dir, journal.VerifyOptions{Limits: keptLimits})
					if err != nil && !errors.Is(err, journal.ErrNothing) || !r.OK() {
						t.Errorf("meanwhile: %v, %v", r.Findings, err)
						return
					}
				}
			})
			appenders.Wait()
			close(ended)
			keepers.Wait()
			sound(t, dir, journal.VerifyOptions{Limits: keptLimits})
			checkAccepted(t, dir, accepted, kills)
		})
	}
}

// checkAccepted seals the log after the kills, and fails if an accepted line is lost.
func checkAccepted(t *testing.T, dir string, accepted map[string]bool, kills int) {
	t.Helper()
	seal(t, dir)
	h := save(t, &journal.HeadKeeper{Dir: dir})
	r := sound(t, dir, journal.VerifyOptions{Heads: []journal.Head{h}, Limits: keptLimits})
	exist := map[string]int{}
	for _, s := range open(t, dir).Segments() {
		collect(t, s, new(int64), exist)
	}
	lost, removed := 0, int64(0)
	for id := range accepted {
		if exist[id] == 0 {
			lost++
		}
	}
	for _, m := range r.Removed {
		removed += m.Lines
	}
	t.Logf("%d kills, %d lines accepted, %d exist in %d segments, %d were removed by %d removals, %d torn",
		kills, len(accepted), len(exist), r.Segments, removed, len(r.Removed), r.Torn)
	// A killed process can leave the files of removed segments.
	if int64(lost) > removed || len(accepted) < 100 || int64(len(exist)) < r.Records || removed == 0 && int64(len(exist)) > r.Records {
		t.Errorf("%d accepted lines are not in the log, and retention removed %d", lost, removed)
	}
}
