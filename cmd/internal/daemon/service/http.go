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

// An httpListener answers agents that "grapnel install --via http" has told to ask over
// http. It listens only while such agents are installed.
type httpListener struct {
	d *daemon

	mu      sync.Mutex
	callers map[string]server.Caller
	host    string // that is listened on; empty = none
	failed  string // why it is not

	// Of run alone.
	running *http.Server
	served  chan struct{}
}

// open starts the listener. It is shut when shut returns.
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

// lookAgain is how often a listener looks who may ask. If another process has the port, the
// listener tries it again as often.
const lookAgain = time.Second

// run listens while agents may ask, until ctx is done.
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

// update listens, or shuts the listener, as the installations want it now.
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
			o.d.log.Error("agents that ask over http are not answered", "address", host, "error", err)
		}
		o.set("", err.Error())
	case l != nil:
		o.serve(l, host)
	}
}

// serve answers what comes to a listener.
func (o *httpListener) serve(l net.Listener, host string) {
	s, done := server.HooksServer(server.HooksOptions{Host: host, Caller: o.caller, Answer: o.answer, Log: o.d.log}), make(chan struct{})
	o.running, o.served = s, done
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.d.log.Error("cannot go on listening over http", "address", host, "error", err)
			o.set("", err.Error())
		}
	}()
	o.set(host, "")
	o.d.log.Info("listening over http", "address", host)
}

// shut ends listening. Answers under way have some time left.
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

// look reads who may ask, and returns where they do; empty = nobody may.
func (o *httpListener) look() (host string, err error) {
	addresses, err := install.ReadAddresses(o.d.place.State)
	callers := map[string]server.Caller{}
	for id, guest := range addresses.Guests {
		rec, broken := installation.Read(o.d.place.Installs(), id)
		if broken != nil {
			o.d.log.Warn("an installation may not ask over http", "installation", id, "error", broken)
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

// answer answers an event of an agent that has nobody else to ask.
func (o *httpListener) answer(ctx context.Context, q *client.Question) (*client.Answer, error) {
	if q.Root != "" {
		q.Home, _ = os.UserHomeDir()
	}
	a, err := o.d.warm.AnswerFallback(ctx, q)
	o.d.answered.Add(1)
	return a, err
}

// set notes where the listener is, or why it is not.
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

// health is where agents are answered, and why not; nil while none ask.
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
