package records

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Record is written as its session and its name: A! is a call at which a hook acted, a is a call,
// and a- is another event.
func TestWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ records, near, far string }{
		"in the middle":            {"s:1 s:2 s:3 s:4 s:5! s:6 s:7 s:8", "s:4 s:5! s:6", "s:1 s:2 s:3 s:7 s:8"},
		"at the ends":              {"s:1! s:2 s:3 s:4 s:5!", "s:1! s:2 s:4 s:5!", "s:3"},
		"one between two":          {"s:1! s:2 s:3! s:4", "s:1! s:2 s:3! s:4", ""},
		"one after the other":      {"s:1 s:2! s:3! s:4 s:5", "s:1 s:2! s:3! s:4", "s:5"},
		"other events":             {"s:1 s:a- s:2! s:b- s:c-! s:3 s:4", "s:1 s:2! s:c-! s:3", "s:a- s:b- s:4"},
		"sessions that take turns": {"s:1 t:1 s:2! t:2 s:3 t:3! s:4 t:4", "s:1 s:2! s:3 t:2 t:3! t:4", "t:1 s:4"},
		"no session":               {":1 s:1 :2! s:2", ":1 :2!", "s:1 s:2"},
		"nothing":                  {"", "", ""},
		"no decision":              {"s:1 s:2", "", "s:1 s:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w window
			var near, far []string
			for id := range strings.FieldsSeq(tt.records) {
				e := &spool.Entry{}
				e.ID, e.Event = id, grapnel.ToolBefore
				if strings.Contains(id, "-") {
					e.Event = grapnel.ToolAfter
				}
				e.Session, _, _ = strings.Cut(id, ":")
				is, isNot := w.add(e, strings.HasSuffix(id, "!"))
				near, far = append(near, ids(is)...), append(far, ids(isNot)...)
			}
			far = append(far, ids(w.rest())...)
			if got := strings.Join(near, " "); got != tt.near {
				t.Errorf("near: %q, want %q", got, tt.near)
			}
			if got := strings.Join(far, " "); got != tt.far {
				t.Errorf("far: %q, want %q", got, tt.far)
			}
		})
	}
}

func ids(list []*spool.Entry) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

// A window forgets the session that was quiet for the longest time, and loses none of its calls.
func TestWindowIsBounded(t *testing.T) {
	t.Parallel()
	var w window
	var far []string
	call := func(session string, acted bool) []string {
		e := &spool.Entry{}
		e.ID, e.Session, e.Event = session, session, grapnel.ToolBefore
		near, isNot := w.add(e, acted)
		far = append(far, ids(isNot)...)
		return ids(near)
	}
	for i := range maxSessions {
		call(fmt.Sprint(i), false)
	}
	call("0", false) // now 1 is the oldest one
	call("new", false)
	if want := []string{"0", "1"}; !cmp.Equal(far, want) {
		t.Errorf("far: %q, want %q", far, want)
	}
	if got, want := call("0", true), []string{"0", "0"}; !cmp.Equal(got, want) {
		t.Errorf("near: %q, want %q", got, want)
	}
	if got, want := call("1", true), []string{"1"}; !cmp.Equal(got, want) {
		t.Errorf("near: %q, want %q", got, want)
	}
	if far = append(far, ids(w.rest())...); len(far) != maxSessions+1 { // all but the second call of 0
		t.Errorf("%d Records are far, want %d", len(far), maxSessions+1)
	}
}
