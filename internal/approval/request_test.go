package approval_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/approval"
)

func request(t *testing.T, s approval.Store, command string, at time.Time) *approval.Request {
	t.Helper()
	r := &approval.Request{
		ID: approval.NewID(), PID: os.Getpid(), Since: at, Until: at.Add(10 * time.Minute), Waits: at.Add(time.Minute), Digest: s.Digest(call(command)), Policy: "p",
		Scope: approval.Scope{Agent: "codex", Session: "s", Dir: "/work"}, Hooks: []string{"user::a"}, Record: "r", Line: []byte(`{}`),
	}
	if err := s.Ask(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Of many answers at the same time, one is in force, and all callers learn which.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	r := request(t, s, "make", time.Now())
	var firsts atomic.Int64
	var inForce sync.Map
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			a := &approval.Answer{State: approval.Denied, By: strings.Repeat("a", i+1), Time: time.Now()}
			got, first, err := s.Answer(r.ID, a)
			if err != nil {
				t.Error(err)
				return
			}
			if first {
				firsts.Add(1)
			}
			inForce.Store(got.By, true)
		})
	}
	wait.Wait()
	n := 0
	inForce.Range(func(any, any) bool { n++; return true })
	if firsts.Load() != 1 || n != 1 {
		t.Errorf("%d answers were the first, and %d were in force", firsts.Load(), n)
	}
	if got, err := s.Request(r.ID); err != nil || got.Answer == nil || got.Open(time.Now()) {
		t.Errorf("Request = %+v, %v", got, err)
	}
}

// Await returns soon after the answer, and without one at the end of the wait.
func TestAwait(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	synctest.Test(t, func(t *testing.T) {
		r := request(t, s, "make", time.Now())
		begun := time.Now()
		if a := s.Await(t.Context(), r); a != nil || time.Since(begun) != time.Minute {
			t.Errorf("without an answer, Await = %v after %v", a, time.Since(begun))
		}
		r.Waits = time.Now().Add(time.Minute)
		begun = time.Now()
		go func() {
			time.Sleep(time.Second)
			_, _, _ = s.Answer(r.ID, &approval.Answer{State: approval.Denied})
		}()
		if a := s.Await(t.Context(), r); a == nil || a.State != approval.Denied || time.Since(begun) > time.Second+20*time.Millisecond {
			t.Errorf("Await = %v after %v", a, time.Since(begun))
		}
	})
}

// Of two equal calls that wait at the same time, a yes is for the one that the person saw.
func TestAwaitEqualCalls(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	synctest.Test(t, func(t *testing.T) {
		seen, other := request(t, s, "make", time.Now()), request(t, s, "make", time.Now())
		g, err := seen.Yes("ada", "", false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Answer(seen.ID, &approval.Answer{State: approval.Approved, Grant: g}); err != nil {
			t.Fatal(err)
		}
		if a := s.Await(t.Context(), other); a != nil {
			t.Errorf("the other call has the answer %+v", a)
		}
		if a := s.Await(t.Context(), seen); a == nil || a.Grant.ID != g.ID {
			t.Errorf("the call has the answer %+v", a)
		}
	})
}

// A yes has the limits of its request, and is spent once.
func TestYes(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	r := request(t, s, "make", time.Now())
	g, err := r.Yes("ada", "", false, time.Now())
	if err != nil || g.ID != r.ID || g.Uses != 1 || g.Scope != r.Scope || g.Policy != "p" || g.Until.Sub(g.Since) != approval.Default {
		t.Fatalf("Yes = %+v, %v", g, err)
	}
	a := &approval.Answer{State: approval.Approved, Grant: g}
	if s.Spend(r, &approval.Answer{State: approval.Denied, Grant: g}, "e", time.Now()) || s.Spend(r, &approval.Answer{State: approval.Approved}, "e", time.Now()) {
		t.Error("an answer that is no yes was spent")
	}
	if !s.Spend(r, a, "e", time.Now()) || s.Spend(r, a, "e", time.Now()) {
		t.Error("the yes is not spent exactly once")
	}
	if g, err = r.Yes("ada", "", true, time.Now()); err != nil || g.Uses != 0 || g.Until.Sub(g.Since) != approval.Max {
		t.Errorf("for a session: %+v, %v", g, err)
	}
	g.ID = approval.NewID()
	a.Grant = g
	if !s.Spend(r, a, "e", time.Now()) || !s.Spend(r, a, "e2", time.Now()) {
		t.Error("a yes for the session is spent")
	}
	if err := s.Revoke(g); err != nil || s.Spend(r, a, "e3", time.Now()) {
		t.Errorf("a revoked yes is spent; %v", err)
	}
	r.Scope.Session = ""
	if _, err := r.Yes("ada", "", true, time.Now()); err == nil {
		t.Error("a yes for a session without a name")
	}
}

// A retried call continues its request, or gets the answer to it.
func TestEarlier(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	now := time.Now()
	first := request(t, s, "make", now)
	same := func(command string) *approval.Request {
		r := *first
		r.ID, r.Digest = approval.NewID(), s.Digest(call(command))
		return &r
	}
	if e := s.Earlier(same("make"), now.Add(time.Second)); e != nil {
		t.Errorf("while an agent waits, another call has the request %+v", e)
	}
	if e := s.Earlier(same("make"), now.Add(2*time.Minute)); e == nil || e.ID != first.ID {
		t.Errorf("the retry has the request %+v", e)
	}
	dead := *first
	dead.PID = 1 << 30 // no system has this process
	if err := s.Ask(&dead); err != nil {
		t.Fatal(err)
	}
	if e := s.Earlier(same("make"), now.Add(time.Second)); e == nil || e.ID != first.ID || e.Waiting(now.Add(time.Second)) {
		t.Errorf("after the agent was killed, the retry has the request %+v", e)
	}
	if err := s.Ask(first); err != nil {
		t.Fatal(err)
	}
	other := same("make")
	other.Scope.Session = "t"
	for name, r := range map[string]*approval.Request{"another call": same("make all"), "another session": other} {
		if e := s.Earlier(r, now.Add(2*time.Minute)); e != nil {
			t.Errorf("%s has the request %+v", name, e)
		}
	}
	if e := s.Earlier(same("make"), now.Add(11*time.Minute)); e != nil {
		t.Errorf("after its end: %+v", e)
	}
	if _, _, err := s.Answer(first.ID, &approval.Answer{State: approval.Denied, Time: now}); err != nil {
		t.Fatal(err)
	}
	if e := s.Earlier(same("make"), now.Add(time.Second)); e == nil || e.Answer == nil || e.Answer.State != approval.Denied {
		t.Errorf("after a no: %+v", e)
	}
}

// Damaged and hostile files are no requests and no answers.
func TestRequestFiles(t *testing.T) {
	t.Parallel()
	s := approval.Store(filepath.Join(t.TempDir(), "approvals"))
	if list, err := s.Requests(); err != nil || list != nil {
		t.Errorf("Requests of nothing = %v, %v", list, err)
	}
	r := request(t, s, "make", time.Now())
	for _, id := range []string{"", "../key", "key", "a/b", "0123", "*"} {
		if _, err := s.Request(id); !errors.Is(err, approval.ErrNoRequest) {
			t.Errorf("Request(%q) = %v", id, err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(string(s), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("abc.request", `{"id":"other"}`)
	write("abd.request", `{`)
	if list, err := s.Requests(); err == nil || len(list) != 1 || list[0].ID != r.ID {
		t.Errorf("Requests = %v, %v", list, err)
	}
	write(r.ID+".answer", `{`)
	if got, err := s.Request(r.ID); err != nil || got.Answer != nil {
		t.Errorf("with a damaged answer: %+v, %v", got, err)
	}
	if _, _, err := s.Answer(r.ID, &approval.Answer{State: approval.Approved}); err == nil {
		t.Error("a damaged answer was replaced")
	}
	if err := s.Ask(&approval.Request{ID: "ab", Line: []byte(`"` + strings.Repeat("x", 3<<20) + `"`)}); err == nil {
		t.Error("a request of 3 MB was stored")
	}
}
