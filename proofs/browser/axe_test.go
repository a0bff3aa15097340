//go:build e2e && linux

package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/proofs/records"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// busy is a policy that stops a part of what proofs/records makes.
const busy = `version: 1
hooks:
  - {name: ask-to-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: 10m}}
  - {name: no-force, on: tool.before, match: {command: git push --force}, block: Force pushing rewrites shared history. Push a new branch instead.}
  - {name: keep-out, on: tool.before, match: {command: rm -rf}, block: Delete single files.}
  - {name: plan-only, on: tool.before, match: {command: terraform}, mode: observe, block: Plans only.}
`

// filled returns a step that stores n Records, the last of them an hour ago.
func filled(t testing.TB, n int) func(local.Place) {
	return func(place local.Place) {
		t.Helper()
		set := load.Policies(load.Request{Files: []load.File{{Path: place.Policy, Scope: grapnel.ScopeUser}}})
		if len(set.Specs) < strings.Count(busy, "name:") {
			t.Fatalf("%d hooks are in force", len(set.Specs))
		}
		const pace = 4 * time.Second // between two Records, on average
		begin := time.Now().Add(-time.Hour - time.Duration(n)*pace)
		if err := records.Store(place, records.Lines(t.Context(), n, set.Specs, begin)); err != nil {
			t.Fatal(err)
		}
	}
}

// pages returns the path of each page by its name. The tab must be logged in.
func pages(t testing.TB, p *page, base string) map[string]string {
	t.Helper()
	all := map[string]string{
		"overview": "/", "approvals": "/approvals", "events": "/events", "filtered": "/events?decision=block&since=24h", "nothing": "/events?text=zzzzzz",
		"sessions": "/sessions", "policy": "/policy", "deliveries": "/deliveries", "missing": "/records/0",
	}
	p.visit(t, base+"/events?decision=block")
	all["record"] = eval[string](t, p, `document.querySelector("#rows a").getAttribute("href")`)
	p.visit(t, base+"/sessions")
	all["session"] = eval[string](t, p, `document.querySelector(".sessions a").getAttribute("href")`)
	return all
}

// looks are how pages are shown: in dark and light, on a large and a small screen, at 200 %, and without motion.
var looks = []look{{}, {width: 360}, {dark: true}, {dark: true, width: 360}, {width: 640, zoomed: true}, {dark: true, width: 640, zoomed: true, reduced: true}}

// axe finds no violation on any page in any look, and no page scrolls sideways.
func TestAccessible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, busy, filled(t, 1000))
	first, base := w.inbox(t, look{})
	all := pages(t, first, base)
	c, _ := w.waits(t, "answered", "git push origin answered")
	first.visit(t, base+"/approvals")
	first.click(t, "role=button[name=\"Approve in this session\"]")
	c.reply(t, allowed)
	_, card := w.waits(t, "open", "git push origin open")
	all["rule"] = "/approvals/rule?id=" + strings.TrimPrefix(card, "#r")
	for _, l := range looks {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			t.Parallel()
			stranger := newPage(t, l, nil)
			stranger.visit(t, base+"/")
			stranger.accessible(t, "login")
			p, _ := w.browse(t, l)
			for name, path := range all {
				p.visit(t, base+path)
				if name == "approvals" {
					p.sees(t, "#ask")
				}
				p.accessible(t, name)
			}
		})
	}
	t.Run("confirmed", func(t *testing.T) {
		t.Parallel()
		for _, l := range looks {
			p, _ := w.inbox(t, l)
			p.sees(t, "role=button[name=\"Deny\"]")
			p.accessible(t, "approvals")
		}
	})
}

// accessible fails for each violation that axe finds, and if the page is wider than the window.
func (p *page) accessible(t testing.TB, name string) {
	t.Helper()
	var violations []string
	p.result(t, &violations, "", "axe")
	for _, v := range violations {
		t.Errorf("%s: %s", name, v)
	}
	if over := eval[float64](t, p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		t.Errorf("%s: the page is %v pixels wider than the window", name, over)
	}
}

// Reduced motion means none.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	for reduced, want := range map[bool]string{false: "fresh", true: "none"} {
		p, base := w.browse(t, look{reduced: reduced})
		p.visit(t, base+"/events")
		p.sees(t, "#status >> text=Live")
		command := fmt.Sprint("echo ", reduced)
		w.call(t, "s", command).reply(t)
		p.sees(t, "#rows >> text="+command)
		if name := eval[string](t, p, `getComputedStyle(document.querySelector("#rows .fresh")).animationName`); name != want {
			t.Errorf("with reduced motion %v, the animation of a new row is %s, want %s", reduced, name, want)
		}
	}
}
