//go:build e2e && linux

package browser

import (
	"os"
	"strings"
	"testing"
	"time"
)

// contains fails unless a text contains all words.
func contains(t testing.TB, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s is %q, want %q", what, text, word)
		}
	}
}

// A click lets the waiting hook program continue.
func TestApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin main")
	contains(t, "the card", p.sees(t, card), "The agent waits", "Push now?", "git push origin main", "ask-to-push")
	p.click(t, button(card, "Approve once"))
	contains(t, "the notice", p.sees(t, ".note[role=status]"), "Approved: the agent continues.")
	c.reply(t, allowed)
}

// The model gets the person's reason.
func TestDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin main")
	p.do(t, card+" >> textarea", "fill", "Not on a Friday <b>")
	p.click(t, button(card, "Deny"))
	contains(t, "the notice", p.sees(t, ".note[role=status]"), "Denied")
	c.reply(t, denied, "Not on a Friday <b>")
	contains(t, "the list", p.sees(t, "main"), "denied by", "Not on a Friday <b>")
}

// A request that no person answers in time ends on the page too, without a reload.
func TestExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(askPush, "10m", "3s", 1))
	p, _ := w.inbox(t, look{})
	eval[any](t, p, "window.loaded = 1")
	c, card := w.waits(t, "s", "git push origin main")
	p.sees(t, card)
	c.reply(t, denied)
	p.gone(t, button(card, "Approve once"))
	contains(t, "the page", p.sees(t, "main >> text=expired"), "expired")
	if eval[any](t, p, "window.loaded") == nil {
		t.Error("the page was loaded again")
	}
}

// An answer in one tab shows in the others.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.inbox(t, look{})
	other := newPage(t, look{}, p)
	other.visit(t, base+"/approvals")
	c, card := w.waits(t, "s", "git push origin main")
	other.sees(t, card)
	p.click(t, button(card, "Approve once"))
	c.reply(t, allowed)
	other.gone(t, button(card, "Approve once"))
	contains(t, "the other tab", other.sees(t, "main"), "approved", "git push origin main")
}

// Only the first answer counts, and the page shows whose it was.
func TestLateClick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.inbox(t, look{})
	other := newPage(t, look{}, p)
	other.visit(t, base+"/approvals")
	c, card := w.waits(t, "s", "git push origin main")
	other.do(t, card+" >> textarea", "focus") // the card stays while a person is about to answer
	p.click(t, button(card, "Deny"))
	p.sees(t, ".note[role=status]")
	other.click(t, button(card, "Approve once"))
	contains(t, "the late tab", other.sees(t, ".note[role=status]"), "Nothing has changed", "denied by ")
	c.reply(t, denied)
	if grants, err := w.place.Approvals().List(time.Now()); err != nil || len(grants) > 0 {
		t.Errorf("after a late click, the grants are %v, %v", grants, err)
	}
}

// A double click is one answer.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin main")
	p.do(t, button(card, "Approve once"), "dblclick")
	contains(t, "the notice", strings.ToLower(p.sees(t, ".note[role=status]")), "approved")
	c.reply(t, allowed)
	contains(t, "the page", p.sees(t, "main"), "approved by")
	again, card := w.waits(t, "s", "git push origin main") // the approval was for once
	p.click(t, button(card, "Deny"))
	again.reply(t, denied)
}

// An approval for a session ends when a person revokes it.
func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin main")
	p.click(t, button(card, "Approve in this session"))
	p.sees(t, ".note[role=status]")
	c.reply(t, allowed)
	w.call(t, "s", "git push origin main").reply(t, allowed)
	p.click(t, "role=button[name=/^Revoke/]")
	p.gone(t, "role=button[name=/^Revoke/]")
	c, card = w.waits(t, "s", "git push origin main")
	p.click(t, button(card, "Deny"))
	c.reply(t, denied)
}

// The person sees the input that will run, not the one that the agent sent.
func TestChangedInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `version: 1
hooks:
  - {name: no-scripts, on: tool.before, match: {command: npm install}, replace: [{pattern: npm install, with: npm install --ignore-scripts}]}
  - {name: ask-install, on: tool.before, match: {command: npm install}, ask: Install?, approve: {within: 10m}}
`)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "npm install left-pad")
	contains(t, "the card", p.sees(t, card), "npm install --ignore-scripts left-pad")
	p.click(t, button(card, "Approve once"))
	p.sees(t, ".note[role=status]")
	c.reply(t, allowed, "npm install --ignore-scripts left-pad")
}

// A person sees the change of the policy and its test, and a second click writes both. Then the
// command passes without a question.
func TestMakeRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, _ := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin docs")
	p.click(t, card+" >> text=Make it a rule")
	contains(t, "the rule", p.sees(t, "main"), "no longer stop this command", w.place.Policy, "grapnel_test.yaml")
	var added []string
	p.result(t, &added, ".diff ins", "allInnerTexts")
	contains(t, "the diff", strings.Join(added, "\n"), `when: 'tool.command not in ["git push origin docs"]'`, "want: none")
	if now, err := os.ReadFile(w.place.Policy); err != nil || string(now) != askPush {
		t.Errorf("the first click changed the policy: %s, %v", now, err)
	}
	p.click(t, "role=button[name=\"Write the rule and approve\"]")
	contains(t, "the notice", p.sees(t, ".note[role=status]"), "Approved: the agent continues.")
	c.reply(t, allowed)
	if now, err := os.ReadFile(w.place.Policy); err != nil || !strings.Contains(string(now), "tool.command not in") {
		t.Errorf("the second click did not change the policy: %s, %v", now, err)
	}
	if out, err := w.command("test", w.root).CombinedOutput(); err != nil {
		t.Errorf("grapnel test: %v: %s", err, out)
	}
	next := w.call(t, "next", "git push origin docs")
	next.reply(t)
	if strings.Contains(next.stdout.String(), "permissionDecision") {
		t.Errorf("the reply to the next call is %s", &next.stdout)
	}
	other, card := w.waits(t, "other", "git push origin main")
	p.click(t, button(card, "Deny"))
	other.reply(t, denied)
}

// A browser that no person has confirmed only looks, and neither does the cookie alone approve.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.browse(t, look{})
	p.visit(t, base+"/approvals")
	c, card := w.waits(t, "s", "git push origin main")
	p.sees(t, card)
	if n := p.count(t, card+" >> button"); n != 0 {
		t.Errorf("a browser that is not confirmed sees %d buttons", n)
	}
	post := func(key string) float64 {
		return eval[float64](t, p, `fetch("/approvals/answer", {method: "POST", body: new URLSearchParams({id: "`+card[2:]+`", answer: "once", key: `+key+`})}).then((r) => r.status)`)
	}
	if status := post(`localStorage.getItem("key")`); status != 403 {
		t.Errorf("a browser that is not confirmed answers, status %v", status)
	}
	w.confirm(t, p)
	if status := post(`"0".repeat(64)`); status != 403 {
		t.Errorf("a confirmed browser answers without its key, status %v", status)
	}
	p.click(t, button(card, "Approve once"))
	p.sees(t, ".note[role=status]")
	c.reply(t, allowed)
}

// The keyboard alone reaches a request and answers it.
func TestKeyboardInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.inbox(t, look{})
	c, card := w.waits(t, "s", "git push origin main")
	p.visit(t, base+"/approvals")
	p.sees(t, card)
	p.tabTo(t, "TEXTAREA")
	p.do(t, card+" >> textarea", "pressSequentially", "no\nkeys")
	p.tabTo(t, "Deny")
	p.press(t, "Enter")
	p.sees(t, ".note[role=status]")
	c.reply(t, denied, `no\nkeys`)
}
