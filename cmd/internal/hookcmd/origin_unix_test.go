//go:build linux || darwin

package hookcmd

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/local/server"
)

// The hook program without a daemon, the daemon and a Go agent name the same origin in deliveries and
// in questions for servers.
func TestThreeWaysNameOneOrigin(t *testing.T) {
	t.Parallel()
	bodies := make(chan []byte, 8)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	}))
	defer target.Close()
	root := rootWith(t, `version: 1
networks: [127.0.0.0/8]
hooks:
  - {name: guard, on: tool.before, match: {command: rm}, block: no}
  - {name: team, on: tool.before, when: verdict.decision == "block", notify: "`+target.URL+`/notify"}
`)
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	set := place.Settings()
	id := place.Identity()
	file := filepath.Join(root, "grapnel.yaml")
	want := &wire.Origin{
		Host: id.Host, User: id.User, Machine: id.Machine, PolicyDigest: set.Digest(),
		Hook: wire.HookRef{Name: "team", Source: file}, Decided: []wire.HookRef{{Name: "guard", Source: file}},
	}
	if want.Host == "" || want.User == "" || want.Machine == "" || len(want.PolicyDigest) != 64 {
		t.Fatalf("%+v", want)
	}
	same := func(way string, got *wire.Origin) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", way, diff)
		}
	}

	fire(t, place, remove)
	box := &memory{}
	drained(t, root, box)
	same("the hook program", box.origins[0])
	for e, err := range spool.Read(place.State, spool.Filter{}) {
		if err != nil || e.Machine != id.Machine || e.PolicyDigest != want.PolicyDigest {
			t.Errorf("Record of the event or of its delivery: %+v, %v", e.Record, err)
		}
	}

	e, err := server.Open(t.Context(), &server.Options{Root: root, CWD: root})
	if err != nil {
		t.Fatal(err)
	}
	e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"rm x"}`)}})
	select {
	case body := <-bodies:
		origin, err := wire.ReadOrigin(body)
		if err != nil {
			t.Fatal(err)
		}
		same("the Go agent", origin)
	case <-time.After(await.Limit):
		t.Error("no delivery")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}

	l := listen(t, root)
	program([]string{"claude-code", "--root", root}, []byte(remove))
	// The event of an agent that sends the format of Grapnel can have the members of an origin.
	program([]string{"plain", "--root", root}, []byte(`{"kind":"tool.before","origin":{"host":"forged","machine":"forged"},"session":{"cwd":"/"},"tool":{"name":"shell","class":"shell","input":{"command":"rm x"},"commands":["rm x"]}}`))
	if len(l.notices) != 2 {
		t.Fatalf("%d notices, declined: %v", len(l.notices), l.declined)
	}
	same("the daemon", l.notices[0].Origin)
	same("the daemon, with a forged origin", l.notices[1].Origin)
}

// The question for a server has the origin as its last member, and a forged one nowhere else.
func TestQuestionsNameTheirOrigin(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\nhooks: [{name: judge, on: tool.before, http: 'https://judge.example.com/'}]\n")
	l := listen(t, root)
	program([]string{"plain", "--root", root}, []byte(`{"kind":"tool.before","origin":{"host":"forged"},"session":{"cwd":"/"},"tool":{"name":"shell","class":"shell"}}`))
	if len(l.questions) != 1 {
		t.Fatalf("%d questions, declined: %v", len(l.questions), l.declined)
	}
	var q ask.Question
	if err := json.Unmarshal(l.questions[0], &q); err != nil {
		t.Fatal(err)
	}
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	id := place.Identity()
	origin, err := wire.ReadOrigin(q.Event)
	if err != nil || origin == nil || origin.Machine != id.Machine || origin.Host != id.Host || origin.Hook.Name != "judge" || origin.Decided != nil {
		t.Errorf("%+v, %v in %s", origin, err, q.Event)
	}
	if at := bytes.LastIndex(q.Event, []byte(`,"origin":{"host":`)); at < 0 || bytes.Contains(q.Event[at:], []byte("forged")) {
		t.Errorf("%s", q.Event)
	}
}
