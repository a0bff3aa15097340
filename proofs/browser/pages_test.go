//go:build e2e && linux

package browser

import (
	"strings"
	"testing"
)

// tabTo presses Tab until the element with this text, label or tag has the focus. The focus must be
// visible.
func (p *page) tabTo(t testing.TB, name string) {
	t.Helper()
	var seen []string
	for range 60 {
		p.press(t, "Tab")
		at := eval[struct {
			Name    string
			Outline string
		}](t, p, `(() => { const e = document.activeElement, s = getComputedStyle(e); return {Name: e.tagName + ": " + (e.innerText || e.ariaLabel || ""), Outline: s.outlineStyle}; })()`)
		if at.Outline == "none" {
			t.Errorf("the focus on %q is not visible", at.Name)
		}
		if strings.Contains(at.Name, name) {
			return
		}
		seen = append(seen, at.Name)
	}
	t.Fatalf("tab does not reach %s, but %q", name, seen)
}

// The keyboard alone reaches the Records of the lists.
func TestKeyboardLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	w.call(t, "s", "ls -la").reply(t)
	w.call(t, "s", "git reset --hard HEAD").reply(t, denied)
	p, base := w.browse(t, look{})
	p.press(t, "Tab")
	if text := eval[string](t, p, "document.activeElement.innerText"); text != "Skip to the content" {
		t.Errorf("the first Tab goes to %q", text)
	}
	p.press(t, "Enter")
	if at := eval[string](t, p, "document.activeElement.id"); at != "main" {
		t.Errorf("the focus is on %q after the skip link", at)
	}
	p.visit(t, base+"/events")
	p.sees(t, "#rows >> text=git reset")
	p.tabTo(t, "git reset --hard HEAD")
	p.press(t, "Enter")
	contains(t, "the page of the Record", p.sees(t, "main > .note"), "Keep the work.")
	p.tabTo(t, "Sessions")
	p.press(t, "Enter")
	p.sees(t, "h1 >> text=Sessions")
	p.tabTo(t, "claude-code")
	p.press(t, "Enter")
	p.sees(t, "#rows >> text=ls -la")
}

// The list of events gets new ones without a reload, and shows markup of a command as text.
func TestLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.browse(t, look{})
	p.visit(t, base+"/events")
	p.sees(t, "#status >> text=Live")
	eval[any](t, p, "window.loaded = 1")
	const markup = `echo '"><script>document.title="owned"</script><img src=x onerror=document.title="owned"><b>'`
	w.call(t, "s", markup).reply(t)
	contains(t, "the row", p.sees(t, "#rows li"), markup)
	if eval[any](t, p, "window.loaded") == nil {
		t.Error("the page was loaded again")
	}
	check := func() {
		t.Helper()
		if n := p.count(t, "main :is(script, img)"); n > 0 {
			t.Errorf("the page has %d elements of the command", n)
		}
		if title := eval[string](t, p, "document.title"); strings.Contains(title, "owned") {
			t.Error("a script of the command ran")
		}
	}
	check()
	p.click(t, "#rows li a")
	contains(t, "the Record", p.sees(t, ".about"), markup)
	check()
	p.visit(t, base+"/approvals")
	_, card := w.waits(t, "s", "git push "+markup)
	contains(t, "the card", p.sees(t, card+" pre"), markup)
	check()
}

// While the daemon does not run, the pages say so. They continue when it runs again.
func TestReconnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	p, base := w.inbox(t, look{})
	events := newPage(t, look{}, p)
	events.visit(t, base+"/events")
	events.sees(t, "#status >> text=Live")
	w.stop(t)
	contains(t, "the status", events.sees(t, "#status >> text=does not answer"), "tries again")
	p.sees(t, "main >> text=does not answer")
	w.start(t)
	if again := origin(w.link(t)); again != base {
		t.Errorf("after the restart, the pages are at %s, not at %s", again, base)
	}
	events.sees(t, "#status >> text=Live")
	w.call(t, "s", "ls -la").reply(t)
	events.sees(t, "#rows >> text=ls -la")
	_, card := w.waits(t, "s", "git push origin main")
	p.sees(t, card)
	p.gone(t, "main >> text=does not answer")
}

// A link is valid once, and a browser without a login learns what to do.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askPush)
	link := w.link(t)
	if p := newPage(t, look{}, nil); p.visit(t, origin(link)+"/events") != 401 {
		t.Error("a browser without a login sees events")
	} else {
		contains(t, "the page", p.sees(t, "main"), "This browser is not logged in.", "grapnel ui")
	}
	if status := newPage(t, look{}, nil).visit(t, link); status != 200 {
		t.Errorf("the login answers %d", status)
	}
	p := newPage(t, look{}, nil)
	if status := p.visit(t, link); status != 401 {
		t.Errorf("the second login with a link answers %d", status)
	}
	contains(t, "the page", p.sees(t, "main"), "This link was used before", "grapnel ui")
}
