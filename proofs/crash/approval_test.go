//go:build system

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// decider is the variable that makes this test program answer a request, so that it can be killed:
// ROOT, then the request's ID.
const decider = "GRAPNEL_TEST_DECIDE"

// decide answers a request with yes.
func decide(words string) error {
	dir, id, _ := strings.Cut(words, "\n")
	place, err := local.Locate(dir, "")
	if err != nil {
		return err
	}
	fmt.Println("begin")
	_, _, err = allow.Decide(place, id, allow.Decision{Yes: true})
	return err
}

// A waiting is a hook program that waits for a person.
type waiting struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	id     string // of the request
}

func (w *waiting) allowed() bool { return strings.Contains(w.stdout.String(), `"allow"`) }

// asks starts the hook program for a call, and returns when its request is stored.
func (t *trial) asks(tb testing.TB, place local.Place, call string) *waiting {
	tb.Helper()
	w := &waiting{cmd: exec.Command(served.Exe(t.bin, "grapnel-hook"), "claude-code", "--root", t.root)}
	w.cmd.Dir, w.cmd.Env, w.cmd.Stdout = served.Project(t.root), append(served.Env(t.root), "CLAUDE_CODE_ENTRYPOINT=sdk-cli"), &w.stdout
	w.cmd.Stdin = bytes.NewReader(served.Event(t.root, "s", call, "deploy "+call))
	if err := w.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	await.Until(tb, "a request", func() bool {
		open, _ := place.Approvals().Pending(time.Now())
		for i := range open {
			if strings.Contains(string(open[i].Line), "deploy "+call+`"`) && time.Now().Before(open[i].Waits) {
				w.id = open[i].ID
			}
		}
		return w.id != ""
	})
	return w
}

// In 100 rounds, the hook program or the program of the person is killed at a random time. No call
// runs without a yes, no yes lets two calls run, and no yes is lost before a program used it.
func TestKilledApproval(t *testing.T) {
	t.Parallel()
	for group := range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			tr := trialOf(t, root(t), "version: 1\nhooks:\n  - {name: ask, on: tool.before, match: {command: deploy}, ask: Deploy?, approve: {within: 10m}}\n")
			place, err := local.Locate(tr.root, "")
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, uint64(group)))
			for round := range 25 {
				call := fmt.Sprintf("%d-%d", group, round)
				w := tr.asks(t, place, call)
				moment := time.Duration(random.Int64N(int64(3 * time.Millisecond)))
				if round%2 == 0 {
					tr.killPerson(t, place, w, moment)
				} else {
					tr.killHook(t, place, w, call, moment)
				}
			}
		})
	}
}

// killPerson kills the program that answers. The call runs only if the yes is stored; otherwise
// the person can answer again.
func (t *trial) killPerson(tb testing.TB, place local.Place, w *waiting, moment time.Duration) {
	tb.Helper()
	person := exec.Command(os.Args[0])
	person.Env = append(os.Environ(), decider+"="+t.root+"\n"+w.id)
	out, err := person.StdoutPipe()
	if err == nil {
		err = person.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		tb.Fatal(err)
	}
	time.Sleep(moment)
	_ = person.Process.Kill()
	_ = person.Wait()
	r, err := place.Approvals().Request(w.id)
	if err != nil {
		tb.Fatal(err)
	}
	if r.Answer == nil {
		if _, first, err := allow.Decide(place, w.id, allow.Decision{Yes: true}); err != nil || !first {
			tb.Errorf("the second answer: %v, %v", first, err)
		}
	}
	if err := w.cmd.Wait(); err != nil || !w.allowed() {
		tb.Errorf("after the yes: %v, %s", err, &w.stdout)
	}
}

// killHook kills the hook program while the person answers. If it has not used the yes, the agent's
// next call does.
func (t *trial) killHook(tb testing.TB, place local.Place, w *waiting, call string, moment time.Duration) {
	tb.Helper()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		time.Sleep(moment)
		_ = w.cmd.Process.Kill()
	}()
	a, first, err := allow.Decide(place, w.id, allow.Decision{Yes: true})
	if err != nil || !first {
		tb.Errorf("the answer: %v, %v", first, err)
		return
	}
	<-killed
	_ = w.cmd.Wait()
	used := !place.Approvals().Unused(a.Grant)
	if w.allowed() && !used {
		tb.Errorf("the call ran, and its yes is not used")
	}
	next := &waiting{cmd: exec.Command(served.Exe(t.bin, "grapnel-hook"), "claude-code", "--root", t.root)}
	if used {
		next = t.asks(tb, place, call) // the yes was used, so a person is asked again
		_ = next.cmd.Process.Kill()
		_ = next.cmd.Wait()
		_, _, _ = place.Approvals().Answer(next.id, &approval.Answer{State: approval.Denied, Time: time.Now()})
	} else {
		next.cmd.Dir, next.cmd.Env, next.cmd.Stdout = served.Project(t.root), served.Env(t.root), &next.stdout
		next.cmd.Stdin = bytes.NewReader(served.Event(t.root, "s", call, "deploy "+call))
		if err := next.cmd.Run(); err != nil {
			tb.Error(err)
		}
	}
	if next.allowed() == used {
		tb.Errorf("the yes was used: %v, and the next call ran: %v", used, next.allowed())
	}
}
