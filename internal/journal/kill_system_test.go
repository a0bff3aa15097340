//go:build system

package journal_test

import (
	"bufio"
	"bytes"
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

// appenderVar makes a test process an appender: its directory and its name.
const appenderVar = "GRAPNEL_TEST_APPENDER"

// TestAppender is the process that TestKills kills. It prints each line that was accepted.
func TestAppender(t *testing.T) {
	dir, name, ok := strings.Cut(os.Getenv(appenderVar), "|")
	if !ok {
		t.Skip("it is a part of TestKills")
	}
	w := &journal.Writer{Dir: dir, MaxSize: 64 << 10, Sync: strings.HasSuffix(name, "0")}
	text := strings.Repeat("x", 3000) // more than a page: the kernel cuts such a write when it kills the process
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s.%d", name, i)
		if _, err := w.Append(fmt.Appendf(nil, `{"id":%q,"text":%q}`, id, text[:rand.IntN(len(text))])); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		if _, err := fmt.Println(id); err != nil {
			os.Exit(0) // the test has ended
		}
	}
}

// Processes are killed while they append: at random times, and in a build with faults also at the points
// between two steps. Each line that was accepted is there once, in a closed segment or the last one, and
// each torn line is the last of a killed process.
//
// chaos: clients
func TestKills(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	const appenders, kills = 3, 40 // of each
	points := []string{"journal: created", "journal: made", "journal: locked", "journal: written"}
	var mu sync.Mutex
	accepted := map[string]bool{}
	var all sync.WaitGroup
	for n := range appenders {
		all.Go(func() {
			for life := range kills {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAppender$")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d.%d", appenderVar, dir, n, life))
				if fault.On && life%3 == 0 {
					cmd.Env = append(cmd.Env, fmt.Sprintf("GRAPNEL_FAULT_KILL=%s*%d", points[rand.IntN(len(points))], 1+rand.IntN(20)))
				}
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				var ids []string
				for lines, until := bufio.NewScanner(out), 1+rand.IntN(60); lines.Scan(); {
					if len(ids) == until {
						time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
					}
					if lines.Text() == "" || strings.HasPrefix(lines.Text(), "failed") {
						t.Errorf("appender %d.%d: %s", n, life, lines.Text())
					}
					ids = append(ids, lines.Text())
				}
				_ = cmd.Wait() // it was killed
				mu.Lock()
				for _, id := range ids {
					accepted[id] = true
				}
				mu.Unlock()
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	followed := follow(t, dir, ended)
	l := open(t, dir)
	found, torn := map[string]int{}, 0
	for _, s := range l.Segments() {
		torn += collect(t, s, new(int64), found)
	}
	lost, twice := 0, 0
	for id := range accepted {
		if found[id] == 0 {
			lost++
		}
	}
	for _, n := range found {
		if n > 1 {
			twice++
		}
	}
	for id := range found {
		if followed[id] != found[id] {
			t.Errorf("%s: a reader that does not look back found it %d times, one that does %d", id, followed[id], found[id])
			break
		}
	}
	t.Logf("%d kills, %d lines accepted, %d in %d segments, %d torn", appenders*kills, len(accepted), len(found), len(l.Segments()), torn)
	if lost > 0 || twice > 0 || torn > appenders*kills || len(accepted) < 100 || len(l.Segments()) < 3 {
		t.Errorf("%d lines are lost, %d are there twice, %d torn", lost, twice, torn)
	}
}

// follow reads a log while it is written, until ended is closed. It never reads a segment again that it has read
// to its end after it was closed.
func follow(t *testing.T, dir string, ended <-chan struct{}) map[string]int {
	t.Helper()
	l := open(t, dir)
	found, done, final := map[string]int{}, map[int]*int64{}, map[int]bool{}
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		default:
			time.Sleep(time.Millisecond)
		}
		if err := l.Refresh(); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Segments() {
			if final[s.Number] {
				continue
			}
			if done[s.Number] == nil {
				done[s.Number] = new(int64)
			}
			final[s.Number] = s.Closed()
			collect(t, s, done[s.Number], found)
		}
	}
	return found
}

// collect counts the lines of a segment after a position, which it changes, and returns the number of torn ones.
func collect(t *testing.T, s *journal.Segment, done *int64, found map[string]int) (torn int) {
	t.Helper()
	for line, err := range s.Lines(*done) {
		*done = line.End
		switch {
		case err != nil:
			t.Fatal(err)
		case line.Torn != nil:
			torn++
		case line.Text != nil:
			id, _, _ := bytes.Cut(bytes.TrimPrefix(line.Text, []byte(`{"id":"`)), []byte{'"'})
			found[string(id)]++
		}
	}
	return torn
}
