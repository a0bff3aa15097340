package main

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

// A door is where agents ask that "grapnel install --via http" has told to. It is closed
// while there are none.
type door struct {
	d *daemon

	mu      sync.Mutex
	callers map[string]server.Caller
	host    string // that is listened on; empty = none
	failed  string // why it is not
}

// open opens the door. It is shut when shut returns.
func (d *daemon) open(ctx context.Context) (shut func()) {
	d.door = &door{d: d}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.door.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// lookAgain is how often a door looks who may ask. A port that somebody else has taken is
// tried again as often.
const lookAgain = time.Second

// run opens and closes the door until ctx is done.
func (o *door) run(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var seen fs.FileInfo
	var running *http.Server
	var served chan struct{}
	shut := func() {
		if running == nil {
			return
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if running.Shutdown(end) != nil {
			_ = running.Close()
		}
		<-served
		running = nil
		o.say("", "")
	}
	defer shut()
	for first := true; ; first = false {
		info, err := os.Stat(install.AddressesFile(o.d.place.State))
		if err != nil {
			info = nil
		}
		if changed := !sameFile(info, seen); first || changed || o.wants() != "" {
			seen = info
			host, err := o.look()
			if host == "" || running != nil && host != o.at() {
				shut()
			}
			var l net.Listener
			if host != "" && running == nil && err == nil {
				l, err = server.ListenHooks(host)
			}
			switch {
			case err != nil:
				if o.wants() != err.Error() {
					o.d.log.Error("agents that ask over http are not answered", "address", host, "error", err)
				}
				o.say("", err.Error())
			case l != nil:
				running = server.HooksServer(server.HooksOptions{Host: host, Caller: o.caller, Answer: o.answer, Log: o.d.log})
				served = make(chan struct{})
				go func(s *http.Server, done chan struct{}) {
					defer close(done)
					if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
						o.d.log.Error("cannot go on listening over http", "address", host, "error", err)
						o.say("", err.Error())
					}
				}(running, served)
				o.say(host, "")
				o.d.log.Info("listening over http", "address", host)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads who may ask, and returns where they do; empty = nobody may.
func (o *door) look() (host string, err error) {
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

func (o *door) caller(id string) (server.Caller, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.callers[id]
	return c, ok
}

// answer answers an event of an agent that has nobody else to ask.
func (o *door) answer(ctx context.Context, q *client.Question) (*client.Answer, error) {
	if q.Root != "" {
		q.Home, _ = os.UserHomeDir()
	}
	a, err := o.d.warm.AnswerFallback(ctx, q)
	o.d.answered.Add(1)
	return a, err
}

func (o *door) say(host, failed string) {
	o.mu.Lock()
	o.host, o.failed = host, failed
	o.mu.Unlock()
}

func (o *door) at() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.host
}

func (o *door) wants() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// health is where agents are answered, and why not; nil while none ask.
func (o *door) health() *server.HTTPHealth {
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
