//go:build e2e

package browser

import (
	"strings"
	"testing"
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
