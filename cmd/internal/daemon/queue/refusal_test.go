package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
)

// A target that answered 4xx is reported until it accepts a later event. Replies that mean "later" are not
// reported, and neither is a server that is down.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	n := 0
	put := func(target string, state delivery.State, status, tries int) {
		t.Helper()
		n++
		job := delivery.Job{
			ID: fmt.Sprintf("%s%d", target, n), Target: target, State: state, Status: status, Tries: tries, Error: fmt.Sprintf("answered %d", status),
			Created: begin.Add(time.Duration(n) * time.Minute), Event: []byte("{}"),
		}
		if err := s.Put(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	put("new", delivery.Waiting, 0, 0)
	put("slack", delivery.Waiting, 400, 1)
	put("slack", delivery.Waiting, 404, 1)
	put("cured", delivery.Dead, 400, 8)
	put("cured", delivery.Delivered, 200, 1)
	put("again", delivery.Delivered, 200, 1)
	put("again", delivery.Dead, 403, 8)
	put("mail", delivery.Dead, 550, 1)
	put("down", delivery.Dead, 500, 8)
	put("busy", delivery.Waiting, 503, 1)
	for _, status := range []int{408, 421, 425, 429, 450, 451} {
		put("later", delivery.Waiting, status, 2)
	}
	put("gone", delivery.Waiting, 0, 0)
	if err := s.Settle(t.Context(), []delivery.Result{{ID: fmt.Sprintf("gone%d", n), State: delivery.Waiting, Status: 410, Error: "answered 410", Off: true, At: begin}}); err != nil {
		t.Fatal(err)
	}
	r := readerTest(t, dir)
	got, err := r.Refusals(t.Context(), begin)
	want := []Refusal{
		{"again", "again7", 403, "answered 403", false},
		{"gone", fmt.Sprintf("gone%d", n), 410, "answered 410", true},
		{"mail", "mail8", 550, "answered 550", false},
		{"slack", "slack3", 404, "answered 404", false},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if got, err := r.Refusals(t.Context(), begin.Add(time.Hour)); len(got) > 0 || err != nil {
		t.Errorf("old refusals: %v, %v", got, err)
	}
}
