package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/web"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/explain"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/hooks"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// pageSource is what the browser page shows of this machine.
type pageSource struct {
	*index.Index
	*queue.Queue
	d *daemon
}

func (p pageSource) Totals(ctx context.Context, since time.Time) (stats.Totals, error) {
	count, err := p.Count(ctx, since)
	return count.Totals(), err
}

func (p pageSource) Policies(_ context.Context, dir string) (web.Policies, error) {
	place := p.d.place
	set := load.Policies(check.LookRequest(place, place.Files(nil, place.DirsOf(dir))))
	list, err := hooks.List(place, dir)
	return web.Policies{Files: set.Files, Hooks: list}, err
}

func (p pageSource) Explain(ctx context.Context, id string) (web.Explanation, error) {
	subject, err := explain.RecordedSubject(ctx, records.Log(p.d.place), id)
	if err != nil {
		return web.Explanation{}, err
	}
	x, err := explain.New(ctx, p.d.place, subject, &explain.Options{})
	if err != nil {
		return web.Explanation{}, err
	}
	var text bytes.Buffer
	x.Print(&cli.Console{Out: &text})
	return web.Explanation{Text: text.String(), Stdout: spool.Mask(x.Reply.Stdout), Stderr: spool.Mask(x.Reply.Stderr), Exit: x.Reply.Exit}, nil
}

func (p pageSource) Machines(ctx context.Context) ([]web.Machine, error) {
	d := p.d
	stats, err := d.storeStats(ctx)
	m := web.Machine{
		Version: hookcmd.Version, PID: os.Getpid(), Since: d.begun, Answered: int(d.answered.Load()), Declined: int(d.declined.Load()),
		Records: int(stats.Records), Bytes: stats.Bytes, Lag: stats.Lag,
	}
	m.Name, _ = os.Hostname()
	if problem := d.storeHealth().Problem(); problem != "" {
		m.Problems = append(m.Problems, problem)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, part := range slices.Sorted(maps.Keys(d.failed)) {
		m.Problems = append(m.Problems, part+" has failed: "+d.failed[part])
	}
	return []web.Machine{m}, err
}

// pageInbox is the inbox of this machine.
type pageInbox struct{ place local.Place }

func (p pageInbox) Requests() ([]approval.Request, error) { return p.place.Approvals().Requests() }
func (p pageInbox) Pending(now time.Time) ([]approval.Request, error) {
	return p.place.Approvals().Pending(now)
}
func (p pageInbox) Call(r *approval.Request) (*allow.Call, error) { return allow.Asked(p.place, r) }
func (p pageInbox) Grants() ([]approval.Grant, error)             { return p.place.Approvals().List(time.Now()) }

func (p pageInbox) Decide(id string, d allow.Decision) (*approval.Answer, bool, error) {
	return allow.Decide(p.place, id, d)
}

func (p pageInbox) Propose(ctx context.Context, id string) (*allow.Rule, error) {
	r, err := p.place.Approvals().Request(id)
	if err != nil {
		return nil, err
	}
	call, err := allow.Asked(p.place, r)
	if err != nil {
		return nil, err
	}
	return allow.Propose(ctx, p.place, call.Entry)
}

func (p pageInbox) Write(r *allow.Rule) error { return r.Write(p.place) }
func (p pageInbox) Settle(r *allow.Rule)      { r.Settle(p.place) }

func (p pageInbox) Revoke(id string) error {
	g, err := allow.Select(p.place, id)
	if err != nil {
		return err
	}
	return allow.Revoke(p.place, g)
}

// pageRoutes opens the browser page for clients of the socket.
func (d *daemon) pageRoutes(site *web.Site) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/ui", func(w http.ResponseWriter, _ *http.Request) {
		link, err := site.Link()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"link": link})
	})
	mux.HandleFunc("POST /v1/ui/confirm", func(w http.ResponseWriter, r *http.Request) {
		var want struct{ Code string }
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&want); err != nil {
			http.Error(w, "cannot read the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		err := d.byPerson(r.Context())
		var name string
		if err == nil {
			name, err = site.Confirm(strings.TrimSpace(want.Code))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		d.log.Info("a person has confirmed a browser", "browser", name)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"browser": name})
	})
	return mux
}

// byPerson returns an error if an agent runs the client of a request, as far as the system can
// tell. The client has checked this itself, but another program could skip that check.
func (d *daemon) byPerson(ctx context.Context) error {
	pid, err := server.PeerPID(ctx)
	if err == nil && pid == 0 {
		return errors.New("the daemon cannot see the process that sends the code: run the command outside of containers")
	}
	var agent *ancestor.Process
	if err == nil {
		agent, err = ancestor.Of(pid)
	}
	switch {
	case agent != nil:
		d.log.Warn("an agent tried to confirm a browser", "process", pid, "agent", agent.Agent)
		return fmt.Errorf("%v sends the code, and only a person can confirm a browser", agent)
	case err != nil:
		d.log.Warn("cannot check whether an agent confirms a browser", "process", pid, "error", err)
	}
	return nil
}
