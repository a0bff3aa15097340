// Package forwarding sends the Records of a place to the targets that its policies list, see
// `records: {forward: ...}`.
package forwarding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Targets returns the targets that the policies of a place list. It returns an error if one of these
// policies cannot be read.
func Targets(place local.Place) ([]policyfile.Forward, error) {
	set := place.Settings()
	if set.Records.Unknown {
		return nil, errors.New("the targets of Records are unknown, because a policy cannot be read")
	}
	return set.Forward, nil
}

// IsPostgres reports whether a URL names a database, and not a stream.
func IsPostgres(to string) bool { return strings.HasPrefix(to, "postgres://") }

// IsNATS reports whether a URL names a stream.
func IsNATS(to string) bool { return strings.HasPrefix(to, "nats://") }

// CheckTyped returns an error for a URL with a password. Other users see the arguments of a program in the list of processes.
// The error does not repeat it.
func CheckTyped(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return errors.New("the address is not a URL") // the text of the error could contain a password
	}
	_, secret := u.User.Password()
	for name := range u.Query() {
		secret = secret || strings.Contains(strings.ToLower(name), "password")
	}
	if secret || u.User != nil && IsNATS(to) {
		return errors.New("a URL on the command line cannot contain a password, because other users can see it in the list of processes")
	}
	return nil
}

// dial returns a function that connects to a target.
func dial(f policyfile.Forward, machine string) func(context.Context) (forward.Target, error) {
	return func(ctx context.Context) (forward.Target, error) {
		if machine == "" {
			return nil, errors.New("this machine has no ID, because its state directory cannot be written")
		}
		if IsPostgres(f.To.Text) {
			return postgres.Open(ctx, postgres.Options{URL: f.To.Text, Credentials: f.Credentials, CA: f.CA}, machine)
		}
		return nats.Open(ctx, nats.Options{URL: f.To.Text, Credentials: f.Credentials, CA: f.CA}, machine)
	}
}

// A Group runs a Forwarder for each target. It is safe for concurrent use.
type Group struct {
	place   local.Place
	records *index.Reader
	log     *slog.Logger

	mu      sync.Mutex
	want    []policyfile.Forward
	states  states
	changed chan struct{} // signals that want or states changed
}

// NewGroup returns a Group for the Records of a log. It sends nothing until Run or Once.
func NewGroup(place local.Place, records *index.Reader, log *slog.Logger) *Group {
	return &Group{place: place, records: records, log: log, states: read(place), changed: make(chan struct{}, 1)}
}

// Set changes the targets.
func (g *Group) Set(targets []policyfile.Forward) {
	g.mu.Lock()
	g.want = targets
	g.mu.Unlock()
	g.signal()
}

// Any reports whether there are targets.
func (g *Group) Any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.want) > 0
}

func (g *Group) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// saveEvery is how often the states are written while they change.
const saveEvery = time.Second

// Run sends Records until ctx is done.
func (g *Group) Run(ctx context.Context) error {
	running := map[policyfile.Forward]context.CancelFunc{}
	var done sync.WaitGroup
	defer done.Wait()
	for ctx.Err() == nil {
		g.mu.Lock()
		want := map[policyfile.Forward]bool{}
		for _, f := range g.want {
			want[f] = true
		}
		g.mu.Unlock()
		for f, stop := range running {
			if !want[f] {
				stop()
				delete(running, f)
			}
		}
		for f := range want {
			if running[f] != nil {
				continue
			}
			one, stop := context.WithCancel(ctx)
			running[f] = stop
			done.Go(func() { g.forwarder(f).Run(one) })
		}
		g.save()
		select {
		case <-ctx.Done():
		case <-g.changed:
			// Records arrive one after the other, and each changes a state.
			select {
			case <-ctx.Done():
			case <-time.After(saveEvery):
			}
		}
	}
	for _, stop := range running {
		stop()
	}
	done.Wait()
	g.save()
	return nil
}

// Once sends the existing Records of a place to all its targets, or waits until a daemon has sent
// them up to the Record with the ID last. The error is about the targets that did not get all.
func Once(ctx context.Context, place local.Place, last string, log *slog.Logger) error {
	targets, err := Targets(place)
	if err != nil || len(targets) == 0 {
		return err
	}
	for {
		x, err := records.Log(place).Keep(nil) // so that no daemon sends, too
		if err == nil {
			g := NewGroup(place, x.Reader, log)
			g.Set(targets)
			return errors.Join(g.sendNow(ctx), x.Close())
		}
		if !errors.Is(err, index.ErrLocked) {
			return err
		}
		reports, err := Reports(ctx, place)
		if err != nil {
			return err
		}
		seq, err := rowOf(ctx, place, last)
		if err != nil {
			return err
		}
		if seq > 0 && !slices.ContainsFunc(reports, func(r Report) bool { return r.Seq < seq || r.Reached.IsZero() || r.Error != "" }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(saveEvery):
		}
	}
}

// rowOf returns the row of a Record; 0 = the log does not have it.
func rowOf(ctx context.Context, place local.Place, id string) (seq int64, err error) {
	r := records.Log(place).Open()
	defer r.Close()
	for row, err := range r.Records(ctx, index.Query{ID: id, Lean: true, Limit: 1}) {
		return row.Seq, err
	}
	return 0, nil
}

// sendNow sends the existing Records to all targets.
func (g *Group) sendNow(ctx context.Context) error {
	g.mu.Lock()
	want := g.want
	g.mu.Unlock()
	errs := make([]error, len(want))
	var done sync.WaitGroup
	for i, f := range want {
		done.Go(func() {
			if err := g.forwarder(f).Once(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", f.To.Text, err)
			}
		})
	}
	done.Wait()
	g.save()
	return errors.Join(errs...)
}

func (g *Group) forwarder(f policyfile.Forward) *forward.Forwarder {
	before := g.stateOf(f.To.Text)
	return &forward.Forwarder{
		Source: g.records, Dial: dial(f, g.place.Identity().Machine),
		Changed: func(s forward.State) { g.note(f.To.Text, &before, &s) },
	}
}

func (g *Group) stateOf(to string) State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.states[to]
}

// note stores the state of a Forwarder that began with another state, and logs what an operator should know.
func (g *Group) note(to string, begun *State, s *forward.State) {
	now := time.Now().UTC().Truncate(time.Second)
	g.mu.Lock()
	last := g.states[to]
	next := State{Seq: last.Seq, Sent: begun.Sent + s.Sent, Missed: begun.Missed + s.Missed, Reached: last.Reached, Error: s.Error, Warning: s.Warning}
	if s.Reached {
		next.Seq = s.At.Seq
	}
	if s.Error == "" {
		next.Reached = now
	} else if next.FailingSince = last.FailingSince; last.Error == "" {
		next.FailingSince = now
	}
	g.states[to] = next
	g.mu.Unlock()
	g.signal()
	switch {
	case s.Error != "" && s.Error != last.Error:
		g.log.Warn("cannot forward Records", "to", to, "error", s.Error)
	case s.Error == "" && last.Error != "":
		g.log.Info("Records are forwarded again", "to", to)
	}
	if next.Missed > last.Missed {
		g.log.Warn("retention has removed Records before they were forwarded", "to", to, "records", next.Missed-last.Missed)
	}
	if s.Warning != "" && s.Warning != last.Warning {
		g.log.Warn("Records can be lost", "to", to, "warning", s.Warning)
	}
}

// save writes the states of the targets that are wanted.
func (g *Group) save() {
	g.mu.Lock()
	maps.DeleteFunc(g.states, func(to string, _ State) bool {
		for _, f := range g.want {
			if f.To.Text == to {
				return false
			}
		}
		return true
	})
	kept := maps.Clone(g.states)
	g.mu.Unlock()
	if err := kept.save(g.place); err != nil {
		g.log.Warn("cannot store how far Records are forwarded", "error", err)
	}
}
