package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
)

// overHTTP has the facts about agents that send events over HTTP.
type overHTTP struct {
	install.Addresses
	unreadable string // why the addresses cannot be read
	daemon     error  // why no daemon replies; nil = one does, or no agent uses HTTP
	health     server.HTTPHealth
	modes      map[string]fs.FileMode // of the settings, by installation
	proxy      string                 // the environment variable of a proxy for requests to this machine
}

// http collects the facts about the port for agents.
func (g *gatherer) http(ctx context.Context) overHTTP {
	var o overHTTP
	var err error
	if o.Addresses, err = install.ReadAddresses(g.Place.State); err != nil {
		o.unreadable = err.Error()
	}
	if len(o.Guests) == 0 {
		return o
	}
	var health struct {
		HTTP *server.HTTPHealth `json:"http"`
	}
	if o.daemon = server.Health(ctx, client.Socket(g.Place.State), &health); health.HTTP != nil {
		o.health = *health.HTTP
	}
	o.proxy = install.Proxied(os.Getenv)
	o.modes = map[string]fs.FileMode{}
	for _, rec := range g.facts.records {
		if info, err := os.Stat(rec.Settings); err == nil {
			o.modes[rec.ID] = info.Mode().Perm()
		}
	}
	return o
}

// judgeHTTP judges the installations that use HTTP.
func judgeHTTP(f *facts, a *agent) (found []Finding) {
	for i := range a.installs {
		found = append(found, judgeHTTPOf(f, a, &a.installs[i])...)
	}
	return found
}

func judgeHTTPOf(f *facts, a *agent, in *installed) (found []Finding) {
	add := func(id string, level Level, subject, what, why, hint string) {
		found = append(found, Finding{ID: id, Level: level, Subject: subject, What: what, Why: why, Hint: hint})
	}
	unguarded := a.Title + " continues, and events that it sends over HTTP are not guarded"
	if in.FailClosed {
		unguarded = a.Title + " blocks some events, if its version supports that; the others are not guarded"
	}
	again := "grapnel install " + a.Name + " --via http"
	guest, asks := f.http.Guests[in.ID]
	address := f.http.URL(a.Name, in.ID)
	if !asks {
		if l := a.layerOf(in.Settings); l != nil && overHTTPIn(l, in.ID) {
			what := "the daemon does not know the secret in " + in.Settings
			if f.http.unreadable != "" {
				what = f.http.unreadable
			}
			add("http.unknown", Bad, in.Settings, what, unguarded, again)
		}
		return found
	}
	switch health := f.http.health; {
	case f.http.daemon != nil:
		add("http.dead", Bad, f.http.Host(), fmt.Sprintf("%s calls the daemon over HTTP, but no daemon answers: %v", a.Title, f.http.daemon),
			unguarded+"; until then, events go to any other process that listens on "+f.http.Host(), "grapnel serve")
	case health.Error != "":
		add("http.deaf", Bad, f.http.Host(), "the daemon does not listen on "+f.http.Host()+": "+health.Error, unguarded, "stop the process that listens there, or uninstall Grapnel and install it again with another port")
	case health.Address != f.http.Host():
		add("http.deaf", Bad, f.http.Host(), "the daemon does not listen on "+f.http.Host(), unguarded, "read the log of the daemon, and restart it")
	default:
		add("http.good", OK, f.http.Host(), "the daemon listens on "+f.http.Host(), "", "")
	}
	if mode := f.http.modes[in.ID]; runtime.GOOS != "windows" && mode&0o077 != 0 {
		add("http.open", Bad, in.Settings, fmt.Sprintf("other users can read %s (mode %04o), which contains the secret", in.Settings, mode), "a process with the secret can call the daemon as "+a.Title, "chmod 600 "+in.Settings)
	}
	if f.http.proxy != "" {
		add("http.proxy", Warn, f.http.proxy, f.http.proxy+" sets a proxy, and NO_PROXY does not contain 127.0.0.1", "with this environment, "+a.Title+" calls the proxy instead of the daemon", "add 127.0.0.1 to NO_PROXY")
	}
	for _, l := range a.layers {
		for _, name := range install.Proxies(l.tree) {
			add("http.proxy", Bad, l.file, fmt.Sprintf("env.%s is set in %s", name, l.file), "it can send requests of "+a.Title+" to a proxy instead of the daemon; the proxy gets the secret and can decide", "remove it")
		}
		if install.Refuses(l.tree, address) {
			add("settings.off", Bad, l.file, "allowedHttpHookUrls in "+l.file+" does not list "+f.http.Host(), "this keeps "+a.Title+" from calling the daemon", fmt.Sprintf("add \"http://%s/*\" to it", f.http.Host()))
		}
	}
	if l := a.layerOf(in.Settings); l != nil && guest.Secret != "" && !shownIn(l, in.ID, guest.Secret) {
		add("http.secret", Bad, in.Settings, "the secret in "+in.Settings+" differs from the secret of the daemon", unguarded, again)
	}
	return found
}

// overHTTPIn reports whether a file has entries over HTTP for an installation.
func overHTTPIn(l *layer, id string) bool {
	for i := range l.hooks {
		if h := &l.hooks[i]; h.Asks() && h.ID == id {
			return true
		}
	}
	return false
}

// shownIn reports whether all entries over HTTP for an installation contain this secret.
func shownIn(l *layer, id, secret string) bool {
	for i := range l.hooks {
		if h := &l.hooks[i]; h.Asks() && h.ID == id && !h.Shows(secret) {
			return false
		}
	}
	return true
}
