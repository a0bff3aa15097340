//go:build e2e && linux

package browser

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// askPush is a policy that waits for a person before a push.
const askPush = `version: 1
hooks:
  - {name: ask-to-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: 10m}}
  - {name: no-force, on: tool.before, match: {command: git reset --hard}, block: Keep the work.}
`

// A world is a root with a policy and, after start, a daemon.
type world struct {
	root   string
	bin    string
	place  local.Place
	daemon *served.Daemon
}

// newWorld makes a world and starts its daemon.
func newWorld(t testing.TB, policy string, prepare ...func(local.Place)) *world {
	t.Helper()
	w := newRoot(t, policy, prepare...)
	w.start(t)
	t.Cleanup(func() { w.stop(t) })
	return w
}

// newRoot makes a world without a daemon.
func newRoot(t testing.TB, policy string, prepare ...func(local.Place)) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "gb-") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	w := &world{root: root, bin: filepath.Dir(offline.Program(t, "grapnel"))}
	if w.place, err = local.Locate(root, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.place.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, do := range prepare {
		do(w.place)
	}
	return w
}

func (w *world) start(t testing.TB) {
	t.Helper()
	d, err := served.Start(context.Background(), w.bin, w.root, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.daemon = d
}

func (w *world) stop(t testing.TB) {
	t.Helper()
	if w.daemon == nil {
		return
	}
	if err := w.daemon.Stop(); err != nil {
		t.Error(err)
	}
	w.daemon = nil
}

// command returns a command of grapnel.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(served.Exe(w.bin, "grapnel"), append(args, "--root", w.root)...)
	cmd.Dir, cmd.Env = w.root, served.Env(w.root)
	return cmd
}

// link returns a link that logs a browser in.
func (w *world) link(t testing.TB) string {
	t.Helper()
	cmd := w.command("ui", "--no-open")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("grapnel ui: %v: %s", err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// browse returns a tab of a new browser that is logged in, and the address of the pages.
func (w *world) browse(t testing.TB, l look) (p *page, base string) {
	t.Helper()
	link := w.link(t)
	p = newPage(t, l, nil)
	if status := p.visit(t, link); status != 200 {
		t.Fatalf("the login answers %d", status)
	}
	return p, origin(link)
}

// inbox returns a tab that shows the inbox of a browser that may approve.
func (w *world) inbox(t testing.TB, l look) (p *page, base string) {
	t.Helper()
	p, base = w.browse(t, l)
	p.visit(t, base+"/approvals")
	w.confirm(t, p)
	return p, base
}

// confirm lets the browser whose tab shows the inbox approve calls.
func (w *world) confirm(t testing.TB, p *page) {
	t.Helper()
	p.sees(t, "#ask")
	term := display.Start(t, w.command("ui", "--confirm", p.sees(t, "#code")), 120, 24)
	term.Want(t, "does a page in your own browser show this code?")
	term.Press(t, "y\r")
	term.Want(t, "confirmed: ")
	if code := term.Exit(t); code != 0 {
		t.Fatalf("grapnel ui --confirm ends with %d: %s", code, term.String())
	}
	p.do(t, "", "reload")
	p.gone(t, "#confirm")
}

// A call is a run of the hook program.
type call struct {
	command        string
	stdout, stderr bytes.Buffer
	ended          chan error
}

// call starts the hook program for a command.
func (w *world) call(t testing.TB, session, command string) *call {
	t.Helper()
	return w.fires(t, "claude-code", command, served.Event(w.root, session, "toolu_"+session, command))
}

// fires starts the hook program for a payload of an agent.
func (w *world) fires(t testing.TB, agent, command string, payload []byte) *call {
	t.Helper()
	c := &call{command: command, ended: make(chan error, 1)}
	cmd := exec.Command(served.Exe(w.bin, "grapnel-hook"), agent, "--root", w.root)
	cmd.Dir, cmd.Env = served.Project(w.root), append(served.Env(w.root), "CLAUDE_CODE_ENTRYPOINT=sdk-cli")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(payload), &c.stdout, &c.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return c
}

// waits starts the hook program for a command, and returns when it waits for a person. card is the
// selector of the request on the page. A session can have one such call.
func (w *world) waits(t testing.TB, session, command string) (c *call, card string) {
	t.Helper()
	c = w.call(t, session, command)
	await.Until(t, "a request of "+command, func() bool {
		open, _ := w.place.Approvals().Pending(time.Now())
		for i := range open {
			if asked, err := allow.Asked(w.place, &open[i]); err == nil && asked.Session == session {
				card = "#r" + open[i].ID
			}
		}
		return card != ""
	})
	return c, card
}

// reply waits for the end of the hook program, and checks that its reply contains each text.
func (c *call) reply(t testing.TB, texts ...string) {
	t.Helper()
	if err := await.Receive(t, "the end of the hook program", c.ended); err != nil {
		t.Errorf("%s: %v: %s", c.command, err, &c.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(c.stdout.String(), text) {
			t.Errorf("the reply to %s is %s, want %s", c.command, &c.stdout, text)
		}
	}
}

// Parts of replies.
const (
	allowed = `"permissionDecision":"allow"`
	denied  = `"permissionDecision":"deny"`
)

// button returns the selector of a button in a card.
func button(card, name string) string { return card + ` >> role=button[name="` + name + `"]` }
