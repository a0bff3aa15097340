package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// roleVar makes the test binary one of several processes that use a spool.
const roleVar = "SPOOL_TEST_ROLE"

func TestMain(m *testing.M) {
	role := strings.Fields(os.Getenv(roleVar))
	if len(role) == 0 {
		await.Main(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play performs the role of another process in a test.
func play(role []string) error {
	number := func(i int) int {
		n, _ := strconv.Atoi(role[i])
		return n
	}
	dir := role[1]
	switch role[0] {
	case "append": // name count size: like as many hook processes
		for i := range number(3) {
			s, err := Open(dir, &Options{MaxSize: int64(number(4))})
			if err != nil {
				return err
			}
			s.Observe(context.Background(), record(fmt.Sprintf("%s-%d", role[2], i)))
			if err := s.Err(); err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
		}
		return nil
	case "hold": // the same with one Spool that stays open
		s, err := Open(dir, &Options{MaxSize: int64(number(4))})
		if err != nil {
			return err
		}
		for i := range number(3) {
			s.Observe(context.Background(), record(fmt.Sprintf("%s-%d", role[2], i)))
		}
		return s.Err()
	case "enqueue": // name count
		for i := range number(3) {
			s, err := Open(dir, nil)
			if err != nil {
				return err
			}
			if err := s.Run(context.Background(), event(fmt.Sprintf("%s-%d", role[2], i)), hooks("h")); err != nil {
				return err
			}
			if err := s.Drain(context.Background(), note(dir)); err != nil {
				return err
			}
		}
		return nil
	case "drain": // stops in the middle of the named hook, until it is killed
		s, err := Open(dir, nil)
		if err != nil {
			return err
		}
		return s.Drain(context.Background(), func(ctx context.Context, p Pending) error {
			if err := note(dir)(ctx, p); err != nil {
				return err
			}
			if p.Event.ID == role[2] {
				fmt.Println("here")
				time.Sleep(time.Minute)
			}
			return nil
		})
	case "count-full":
		return countFull(dir)
	case "fill": // until the file cannot grow any more
		return fill(dir, number(2))
	case "count": // prints its count until it is killed
		s, err := Open(dir, nil)
		if err != nil {
			return err
		}
		for {
			n, err := s.up("k")
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
	case "touch":
		return os.WriteFile(dir, []byte("done"), 0o600)
	default:
		return fmt.Errorf("no such role: %v", role)
	}
}

// up increments a count. On a busy machine, other processes may hold the lock too long. Then
// nothing was counted, and up tries again.
func (s *Spool) up(key string) (n int, err error) {
	for end := time.Now().Add(await.Limit); ; {
		err = s.Count("o", key, func(kept []byte) ([]byte, time.Duration) {
			n, _ = strconv.Atoi(string(kept))
			n++
			return strconv.AppendInt(nil, int64(n), 10), time.Hour
		})
		if !errors.Is(err, files.ErrLocked) || time.Now().After(end) {
			return n, err
		}
	}
}

// note returns a hook that records which events it got.
func note(dir string) func(context.Context, Pending) error {
	return func(_ context.Context, p Pending) error {
		f, err := os.OpenFile(dir+"/ran", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, p.Event.ID)
		return err
	}
}

// process prepares another process.
func process(t *testing.T, role ...any) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+strings.TrimSuffix(fmt.Sprintln(role...), "\n"))
	cmd.Stderr = t.Output()
	return cmd
}

// event returns a call of a shell tool.
func event(id string) *grapnel.Event {
	return &grapnel.Event{
		ID: id, Kind: grapnel.ToolBefore, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Agent: grapnel.Agent{Name: "claude-code"},
		Session: grapnel.Session{ID: "s1", CWD: "/work"},
		Tool: &grapnel.Tool{
			ID: "t1", Name: "Bash", Class: grapnel.ClassShell, Input: []byte(`{"command":"ls <a>"}`), Commands: []string{"ls <a>"},
			Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}},
		},
	}
}

// record returns the Record that an engine writes for event.
func record(id string) *grapnel.Record {
	return &grapnel.Record{
		ID: id, Time: time.Now().UTC().Round(0), Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash", Decision: grapnel.Block,
		Would: grapnel.Ask, Hooks: []grapnel.HookRun{{Name: "no-ls", Source: "user", Decision: grapnel.Block, Cause: grapnel.CauseDecision, MS: 0.25}},
		Reasons: []grapnel.Reason{{Hook: "user::no-ls", Text: "No <ls> here.", Cause: grapnel.CauseDecision}}, Changed: []grapnel.Field{grapnel.FieldInput},
		Unsupported: []string{"context: not sent"}, MS: 1.5, Input: event(id),
	}
}

func hooks(names ...string) []grapnel.Spec {
	var specs []grapnel.Spec
	for _, name := range names {
		specs = append(specs, grapnel.Spec{Name: name, Phase: grapnel.PhaseObserve, Source: grapnel.Source{Name: "user", File: "/p.yaml", Digest: "abc"}})
	}
	return specs
}
