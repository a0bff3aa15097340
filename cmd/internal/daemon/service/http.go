package service

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// An httpListener replies to agents that "grapnel install --via http" has configured to send
// their events over HTTP. It listens only while such agents are installed.
type httpListener struct {
	d *daemon

	mu      sync.Mutex
	callers map[string]server.Caller
	host    string // listening address; empty = not listening
	failed  string // why it does not listen

	// Used only by run.
	running *http.Server
	served  chan struct{}
}

// open starts the listener. shut stops it and waits for its end.
func (d *daemon) open(ctx context.Context) (shut func()) {
	d.http = &httpListener{d: d}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.http.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// lookAgain is how often a listener reads the installations. If another process has the port, the
// listener tries to open it as often.
const lookAgain = time.Second

// run listens while agents are installed that need it, until ctx is done.
func (o *httpListener) run(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	defer o.shut(ctx)
	var seen fs.FileInfo
	for first := true; ; first = false {
		info, err := os.Stat(install.AddressesFile(o.d.place.State))
		if err != nil {
			info = nil
		}
		if changed := !sameFile(info, seen); first || changed || o.failure() != "" {
			seen = info
			o.update(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update starts or stops listening, as the current installations require.
func (o *httpListener) update(ctx context.Context) {
	host, err := o.look()
	if host == "" || o.running != nil && host != o.at() {
		o.shut(ctx)
	}
	var l net.Listener
	if host != "" && o.running == nil && err == nil {
		l, err = server.ListenHooks(host)
	}
	switch {
	case err != nil:
		if o.failure() != err.Error() {
			o.d.log.Error("cannot listen for agents over http", "address", host, "error", err)
		}
		o.set("", err.Error())
	case l != nil:
		o.serve(l, host)
	}
}

// serve replies to the requests of a listener.
func (o *httpListener) serve(l net.Listener, host string) {
	s, done := server.HooksServer(server.HooksOptions{Host: host, Caller: o.caller, Answer: o.answer, Log: o.d.log}), make(chan struct{})
	o.running, o.served = s, done
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.d.log.Error("listener for agents over http failed", "address", host, "error", err)
			o.set("", err.Error())
		}
	}()
	o.set(host, "")
	o.d.log.Info("listening over http", "address", host)
}

// shut stops listening. Replies in progress have StopTime to finish.
func (o *httpListener) shut(ctx context.Context) {
	if o.running == nil {
		return
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
	defer cancel()
	if o.running.Shutdown(end) != nil {
		_ = o.running.Close()
	}
	<-o.served
	o.running = nil
	o.set("", "")
}

// look reads the installations that may send events, and returns their listening address; empty =
// no such installations.
func (o *httpListener) look() (host string, err error) {
	addresses, err := install.ReadAddresses(o.d.place.State)
	callers := map[string]server.Caller{}
	for id, guest := range addresses.Guests {
		rec, broken := installation.Read(o.d.place.Installs(), id)
		if broken != nil {
			o.d.log.Warn("cannot read an installation that uses http", "installation", id, "error", broken)
			continue
		}
		callers[id] = server.Caller{Agent: rec.Agent, Secret: guest.Secret, Root: rec.Root}
	}
	o.mu.Lock()
	o.callers = callers
	o.mu.Unlock()
	if len(callers) == 0 {
		return "", err
	}
	return addresses.Host(), err
}

func (o *httpListener) caller(id string) (server.Caller, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.callers[id]
	return c, ok
}

// answer replies to an event of an agent that has no hook program to fall back to.
func (o *httpListener) answer(ctx context.Context, q *client.Question) (*client.Answer, error) {
	if q.Root != "" {
		q.Home, _ = os.UserHomeDir()
	}
	a, err := o.d.warm.AnswerFallback(ctx, q)
	o.d.answered.Add(1)
	return a, err
}

// set stores the listening address, or the error.
func (o *httpListener) set(host, failed string) {
	o.mu.Lock()
	o.host, o.failed = host, failed
	o.mu.Unlock()
}

func (o *httpListener) at() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.host
}

func (o *httpListener) failure() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// health returns the listening address and the error; nil if no agents need the listener.
func (o *httpListener) health() *server.HTTPHealth {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.host == "" && o.failed == "" {
		return nil
	}
	return &server.HTTPHealth{Address: o.host, Error: o.failed}
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
