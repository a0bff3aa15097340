package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Request asks a person about a call. It is stored in a file, so it outlives the program that
// waits for the answer.
type Request struct {
	ID       string    `json:"id"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // later, no answer counts
	Waits    time.Time `json:"waits"` // until then the agent waits; later it must retry the call
	PID      int       `json:"pid"`   // of the program that waits
	Scope    Scope     `json:"scope"`
	Digest   string    `json:"digest"`           // of the call, see [Store.Digest]
	Policy   string    `json:"policy,omitempty"` // digest of the policies in force
	Hooks    []string  `json:"hooks"`            // full names of the hooks that ask
	Question string    `json:"question,omitempty"`
	Record   string    `json:"record"`            // ID of the event, and of its Record after the answer
	Changed  bool      `json:"changed,omitempty"` // hooks changed the call

	// Line is the masked Record of the question, as in the log, with all of the event: all that a yes
	// covers.
	Line json.RawMessage `json:"line"`

	Answer *Answer `json:"-"` // nil = the request is open
}

// A State is the end of a Request.
type State string

// The states.
const (
	Approved State = "approved" // by a person
	Denied   State = "denied"   // by a person
	Expired  State = "expired"  // no person answered in time
	Handed   State = "handed"   // the agent asks its own question instead
)

// An Answer ends a Request. It is final: see [Store.Answer].
type Answer struct {
	State  State     `json:"state"`
	By     string    `json:"by,omitempty"` // name of the person
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`
	Grant  *Grant    `json:"grant,omitempty"`  // of a yes
	Waited bool      `json:"waited,omitempty"` // the agent waited for it
}

// String describes the answer in a few words: denied by ada at 15:04:05.
func (a *Answer) String() string {
	text := string(a.State)
	if a.State == Handed {
		text = "handed over to the agent's own question"
	}
	if a.By != "" {
		text += " by " + a.By
	}
	text += " at " + a.Time.Local().Format("15:04:05")
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

const (
	requestSuffix = ".request"
	answerSuffix  = ".answer"

	maxRequest = 2 << 20 // bytes; the Record of an event is shorter
)

// Terms returns how the question of a hook waits for a person, or nil.
func Terms(hook *grapnel.Spec) *policyfile.Approve {
	if a, ok := seam.As[interface{ Approve() *policyfile.Approve }](hook.Hook); ok {
		return a.Approve()
	}
	return nil
}

func (s Store) requestFile(id string) string { return filepath.Join(string(s), id+requestSuffix) }

func (s Store) answerFile(id string) string { return filepath.Join(string(s), id+answerSuffix) }

// Ask stores a Request. It replaces the Request with the same ID.
func (s Store) Ask(r *Request) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(data) > maxRequest {
		return fmt.Errorf("the call has %d bytes, and a person can be asked about %d at most", len(data), maxRequest)
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	s.prune(r.Since)
	return files.Write(s.requestFile(r.ID), data, 0o600)
}

// ErrNoRequest is the error for an ID that no Request has.
var ErrNoRequest = errors.New("no such request")

// Request returns the Request with an ID, with its answer.
func (s Store) Request(id string) (*Request, error) {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
		return nil, ErrNoRequest
	}
	data, err := files.Read(s.requestFile(id), maxRequest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRequest
	}
	r := &Request{}
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err == nil && r.ID != id {
		err = errors.New("the file has another ID")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the request %s: %w", id, err)
	}
	r.Answer = s.answer(id)
	return r, nil
}

// answer returns the answer to a Request, or nil.
func (s Store) answer(id string) *Answer {
	data, err := files.Read(s.answerFile(id), maxGrant)
	a := &Answer{}
	if err != nil || json.Unmarshal(data, a) != nil {
		return nil
	}
	return a
}

// Requests returns all Requests of the last day, the newest first. A file that cannot be read is
// part of the error.
func (s Store) Requests() ([]Request, error) { return s.requests(func(string) bool { return true }) }

// Pending returns the Requests that a person can answer at a time, the newest first. It does not read
// the answered ones, so a page can call it often.
func (s Store) Pending(now time.Time) ([]Request, error) {
	list, err := s.requests(func(id string) bool { return !files.Exists(s.answerFile(id)) })
	return slices.DeleteFunc(list, func(r Request) bool { return !r.Open(now) }), err
}

func (s Store) requests(wanted func(id string) bool) ([]Request, error) {
	names, err := s.names()
	var list []Request
	for _, name := range names {
		id, ok := strings.CutSuffix(name, requestSuffix)
		if !ok || !wanted(id) {
			continue
		}
		r, failed := s.Request(id)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Request) int { return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.ID, b.ID)) })
	return list, err
}

// Open reports whether a person can answer the Request at a time.
func (r *Request) Open(now time.Time) bool {
	return r.Answer == nil && now.Before(r.Until) && !now.Before(r.Since)
}

// Waiting reports whether a program waits for the answer at a time. A program in another container
// cannot be seen, and is treated as ended.
func (r *Request) Waiting(now time.Time) bool {
	if !now.Before(r.Waits) {
		return false
	}
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Answer ends a Request. Only the first answer counts, also of several processes: the result is the
// answer in force, and whether it is this one.
func (s Store) Answer(id string, a *Answer) (*Answer, bool, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return nil, false, err
	}
	kept, err := files.Create(s.answerFile(id), data)
	if err != nil {
		return nil, false, err
	}
	if string(kept) == string(data) {
		return a, true, nil
	}
	first := &Answer{}
	if err := json.Unmarshal(kept, first); err != nil {
		return nil, false, fmt.Errorf("cannot read the answer to the request %s: %w", id, err)
	}
	return first, false, nil
}

// Yes returns the Grant of an answer to the Request: for one use, or with session for any number of
// uses in the session.
func (r *Request) Yes(by, reason string, session bool, now time.Time) (*Grant, error) {
	g := &Grant{By: by, Reason: reason, Uses: 1, Scope: r.Scope, Digest: r.Digest, Policy: r.Policy, Hooks: r.Hooks, Call: r.Question, Record: r.Record}
	length := Default
	if session {
		g.Uses, length = 0, Max
		if r.Scope.Session == "" {
			return nil, errors.New("the agent did not name its session, so the call can be approved once only")
		}
	}
	if err := g.New(now, length); err != nil {
		return nil, err
	}
	g.ID = r.ID
	return g, nil
}

// poll is how often a waiting program looks for an answer. To look takes a few microseconds.
const poll = 10 * time.Millisecond

// Await waits for the answer to a Request, or for a Grant of the same call from another terminal. It
// returns nil after the Request's Waits, and when ctx is done.
func (s Store) Await(ctx context.Context, r *Request) *Answer {
	ctx, cancel := context.WithDeadline(ctx, r.Waits)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if a := s.answer(r.ID); a != nil {
			return a
		}
		if g, ok := s.granted(r); ok {
			return &Answer{State: Approved, By: g.By, Reason: g.Reason, Time: g.Since, Grant: g}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// granted returns the Grant with which a person allowed the call of a Request without answering it.
// The yes to another Request is for the call that waits for it, also if that is the same call.
func (s Store) granted(r *Request) (*Grant, bool) {
	if !files.Exists(s.file(r.Digest)) {
		return nil, false
	}
	g, ok := s.Find(r.Digest, "", time.Now())
	return g, ok && g.fits(r) && !files.Exists(s.requestFile(g.ID))
}

// fits reports whether the Grant answers all questions of a Request.
func (g *Grant) fits(r *Request) bool {
	return g.Digest == r.Digest && !slices.ContainsFunc(r.Hooks, func(hook string) bool { return !g.covers(r.Scope.Session, r.Policy, hook) })
}

// Spend uses the Grant of an answer for an event with this ID. It reports false for an answer that
// does not approve this Request, or not any more: the Grant is of another call, session or policy, has
// ended, was revoked or is used up.
func (s Store) Spend(r *Request, a *Answer, event string, now time.Time) bool {
	g := a.Grant
	return a.State == Approved && g != nil && g.active(now) && g.fits(r) && !s.spent(g) && s.Use(g, event)
}

// Earlier returns the newest Request that has the same call, session, policy and hooks as r, if its
// answer or its question is still in force: a yes that can be used, a no, or an open Request for
// which no agent waits.
func (s Store) Earlier(r *Request, now time.Time) *Request {
	list, _ := s.Requests() // of a file that cannot be read, a person can be asked again
	for i := range list {
		e := &list[i]
		if e.Digest != r.Digest || e.Policy != r.Policy || e.Scope != r.Scope || !slices.Equal(e.Hooks, r.Hooks) {
			continue
		}
		switch a := e.Answer; {
		case a == nil && e.Open(now) && !e.Waiting(now),
			a != nil && a.State == Denied && now.Before(e.Until),
			a != nil && a.State == Approved && a.Grant != nil && a.Grant.active(now) && !s.spent(a.Grant):
			return e
		}
	}
	return nil
}
