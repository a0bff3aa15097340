package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// memory is an Outbox that stores jobs in memory, or returns an error.
type memory struct {
	err     error // of Put
	ids     []string
	events  []*grapnel.Event
	targets []policyfile.HTTP
	refs    []late.HookRef
	origins []*wire.Origin
	flushed int
}

func (m *memory) Put(_ context.Context, p spool.Pending, h policyfile.HTTP) error {
	if m.err != nil {
		return m.err
	}
	m.ids, m.events, m.targets, m.refs = append(m.ids, p.ID), append(m.events, p.Event), append(m.targets, h), append(m.refs, late.RefOf(&p))
	m.origins = append(m.origins, p.Origin)
	return nil
}

func (m *memory) Flush(ctx context.Context) error {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > late.FlushTime {
		return errors.New("nothing ends it")
	}
	m.flushed++
	return nil
}

// fire answers an event of Claude Code, and starts no drain.
func fire(t *testing.T, place local.Place, payload string) dialect.Reply {
	t.Helper()
	reply, _ := answer(t.Context(), invocation{}, dialect.ClaudeCode(), dialect.Input{Payload: []byte(payload)}, place, nil)
	return reply
}

// drained runs the pending hooks.
func drained(t *testing.T, root string, box *memory) {
	t.Helper()
	inv := invocation{root: root, drain: true}
	if box != nil {
		inv.outbox = func(local.Place) late.Outbox { return box }
	}
	if exit := drain(inv, io.Discard); exit != 0 {
		t.Errorf("the drain ended with %d", exit)
	}
}

// lateErrors returns the results of the pending hooks.
func lateErrors(t *testing.T, place local.Place) (ends []string) {
	t.Helper()
	entries, problems := entriesOf(t, place)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, e := range entries {
		if e.Late {
			ends = append(ends, strings.TrimSpace(e.Hooks[0].Name+" "+e.Hooks[0].Error))
		}
	}
	return ends
}

func entriesOf(t *testing.T, place local.Place) (entries []spool.Entry, problems []error) {
	t.Helper()
	for e, err := range spool.Read(place.State, spool.Filter{}) {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, problems
}

const notifying = `version: 1
networks: [127.0.0.0/8]
hooks:
  - {name: guard, on: tool.before, match: {command: rm}, block: no}
  - name: team
    on: tool.before
    when: verdict.decision == "block"
    notify: {url: "https://hooks.example.com/x", secret: file:key, body: cloudevents, ordered: true, timeout: 3s, headers: {x-team: core}}
`

const harmless = `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`

// A block is answered and queued for the server that subscribed to it. A drain puts it into the
// outbox with the decision. Other events are not queued.
func TestNotify(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"grapnel.yaml": notifying, "key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fire(t, place, harmless)
	if reply := fire(t, place, remove); !strings.Contains(string(reply.Stdout), `"deny"`) || len(reply.Stderr) > 0 {
		t.Fatalf("%s%s", reply.Stdout, reply.Stderr)
	}
	// The queued hook contains neither a secret nor the address.
	posted := outbox(t, place)
	if len(posted) != 1 || strings.Contains(posted[0], "MfKQ9") || strings.Contains(posted[0], "hooks.example.com") {
		t.Fatalf("%s", posted)
	}
	box := &memory{}
	drained(t, root, box)
	if len(box.ids) != 1 || box.flushed == 0 {
		t.Fatalf("%+v", box)
	}
	ev := box.events[0]
	if ev.Kind != grapnel.ToolBefore || ev.Verdict() == nil || ev.Verdict().Decision != grapnel.Block || ev.Session.ID != "s" {
		t.Errorf("told of %+v with %+v", ev, ev.Verdict())
	}
	want := policyfile.HTTP{
		Name: "team", URL: "https://hooks.example.com/x", Secrets: []string{"file:key"}, Headers: map[string]string{"x-team": "core"}, Body: "cloudevents", Ordered: true,
		Notify: true, Async: true, Timeout: policyfile.Duration(3 * time.Second), Source: place.Policy, Dir: root, Scope: grapnel.ScopeUser,
	}
	if diff := cmp.Diff(want, box.targets[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"team"}, lateErrors(t, place)); diff != "" {
		t.Errorf("how it ended (-want +got)\n%s", diff)
	}

	// Address and key for a delivery come from the stored data, not from the current file.
	if err := os.WriteFile(place.Policy, []byte("version: 1\nnetworks: [10.0.0.0/8]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, reach, err := late.NotifyOf(place, box.refs[0])
	want.Name, want.Secrets = place.Policy+"::team", []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	if diff := cmp.Diff(want, h); diff != "" || err != nil || len(reach.Networks) != 1 || reach.Networks[0] != "10.0.0.0/8" {
		t.Errorf("%v, %v, (-want +got)\n%s", err, reach, diff)
	}
	other := box.refs[0]
	other.Name = "guard"
	if _, _, err := late.NotifyOf(place, other); err == nil || !strings.Contains(err.Error(), "has no notify target") {
		t.Errorf("of a rule: %v", err)
	}
	other.Name = "nobody"
	if _, _, err := late.NotifyOf(place, other); err == nil || !strings.Contains(err.Error(), "no longer exists") {
		t.Errorf("of nobody: %v", err)
	}
	if err := os.Remove(filepath.Join(root, "key")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := late.NotifyOf(place, box.refs[0]); err == nil || !strings.Contains(err.Error(), "secret file:key: no such file") {
		t.Errorf("without a key: %v", err)
	}
}

// If the outbox cannot store a job now, it gets the job later, under the same ID. Other pending
// hooks run in the meantime. Without an outbox, the Record contains the error.
func TestNotifyLater(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	text := notifying + "  - {name: other, on: tool.before, when: 'verdict.decision == \"block\"', http: https://127.0.0.1:1, async: true}\n"
	if err := os.WriteFile(place.Policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fire(t, place, remove)
	box := &memory{err: errors.New("the disk is full")}
	drained(t, root, box)
	if ends := lateErrors(t, place); len(ends) != 1 || !strings.HasPrefix(ends[0], "other ") || box.flushed != late.OutboxRounds {
		t.Errorf("with a full disk: %q, flushed %d times", ends, box.flushed)
	}
	box.err = nil
	fire(t, place, remove)
	drained(t, root, box)
	if len(box.ids) != 2 || box.ids[0] == box.ids[1] {
		t.Errorf("told %q", box.ids)
	}
	fire(t, place, remove)
	drained(t, root, nil)
	if ends := lateErrors(t, place); !strings.Contains(fmt.Sprint(ends), "team notify needs the program grapnel") {
		t.Errorf("without an outbox: %q", ends)
	}
}

// A project's webhook gets only the data that the project may see, and only this data is queued.
func TestNotifyOfAProject(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p", "root")
	root := filepath.Join(dir, "root")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place.Policy, []byte("version: 1\nredact: {patterns: ['tok-[a-z0-9]+']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "p", local.ProjectPolicy)
	if err := os.WriteFile(file, []byte("version: 1\nhooks:\n  - {name: far, on: tool.before, notify: 'https://a.example'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	payload := fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo tok-12345"}}`, filepath.Dir(file))
	fire(t, place, payload)
	box := &memory{}
	drained(t, root, box)
	if len(box.ids) != 0 {
		t.Fatal("a project that nobody trusts tells a server")
	}
	x, errs := load.Examine(file, filepath.Dir(file), load.Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := place.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	fire(t, place, payload)
	if posted := outbox(t, place); len(posted) != 1 || strings.Contains(posted[0], "tok-12345") {
		t.Errorf("%s", posted)
	}
	drained(t, root, box)
	if len(box.ids) != 1 || box.targets[0].Scope != grapnel.ScopeProject || strings.Contains(fmt.Sprint(box.events[0].Tool.Commands), "tok-12345") {
		t.Fatalf("%+v", box)
	}
	if _, _, err := late.NotifyOf(place, box.refs[0]); err != nil {
		t.Errorf("while it is trusted: %v", err)
	}
	if forgot, err := place.Trusts().Forget(file, place.Snapshots()); !forgot || err != nil {
		t.Fatal(forgot, err)
	}
	if _, _, err := late.NotifyOf(place, box.refs[0]); err == nil {
		t.Error("its server is told although nobody trusts it any more")
	}
}

// outbox returns the content of the files of hooks that wait.
func outbox(t *testing.T, place local.Place) (posted []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(place.State, "outbox", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		posted = append(posted, string(content))
	}
	return posted
}
