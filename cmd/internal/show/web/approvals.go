package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/internal/approval"
)

// An Inbox has the calls that a person can approve, and the answers.
type Inbox interface {
	Requests() ([]approval.Request, error)             // of the last day, the newest first
	Pending(now time.Time) ([]approval.Request, error) // the open ones of them
	Call(r *approval.Request) (*allow.Call, error)
	Decide(id string, d allow.Decision) (answer *approval.Answer, first bool, err error)
	Propose(ctx context.Context, id string) (*allow.Rule, error) // a rule that lets the call of a request pass
	Write(r *allow.Rule) error
	Settle(r *allow.Rule) // waits until a rule is in force
	Grants() ([]approval.Grant, error)
	Revoke(grant string) error
}

// inBrowser is where a person answers, in Records.
const inBrowser = "in the browser"

// inboxPoll is how often a stream looks for changes of the inbox, which is in files.
const inboxPoll = time.Second

// An asked is a request on the page.
type asked struct {
	*allow.Call
	Waits, MayAnswer bool
	Problem          error // why a person cannot approve the call
}

// approvals shows the calls that wait for a person, the answers of the last day, and the grants.
func (s *Site) approvals(w http.ResponseWriter, r *http.Request) {
	b, _ := s.browser(r)
	data := struct {
		Confirmed bool
		Notice    string // about the request that was answered last
		Open      []asked
		Ended     []approval.Request
		Grants    []approval.Grant
	}{Confirmed: b.Key != ""}
	requests, err := s.Inbox.Requests()
	errs := []error{err}
	var ended []approval.Request
	for i := range requests {
		if !requests[i].Open(s.Now()) {
			ended = append(ended, requests[i])
			continue
		}
		call, err := s.Inbox.Call(&requests[i])
		if errs = append(errs, err); err == nil {
			data.Open = append(data.Open, asked{Call: call, Waits: call.Request.Waiting(s.Now()), MayAnswer: data.Confirmed, Problem: call.Allowable()})
		}
	}
	words := r.URL.Query()
	if i := slices.IndexFunc(ended, func(e approval.Request) bool { return e.ID == words.Get("answered") && e.Answer != nil }); i >= 0 {
		data.Notice = notice(&ended[i], words.Get("late") != "")
	}
	data.Ended = ended[:min(perPage, len(ended))]
	data.Grants, err = s.Inbox.Grants()
	s.show(w, http.StatusOK, "approvals", &view{Title: "Approvals", Path: "/approvals", Data: &data}, append(errs, err)...)
}

// notice describes the effect of an answer. late means that it came after the answer in force.
func notice(r *approval.Request, late bool) string {
	switch a := r.Answer; {
	case late:
		return fmt.Sprintf("Nothing has changed: the request was %v.", a)
	case a.State == approval.Approved && a.Waited:
		return "Approved: the agent continues."
	case a.State == approval.Approved:
		return "Approved. Tell the agent to try again."
	}
	return "Denied: the agent does not run the call."
}

// answer answers a request. The first answer counts, and the page shows which one that was.
func (s *Site) answer(w http.ResponseWriter, r *http.Request) {
	if !s.mayApprove(w, r) {
		return
	}
	id, choice := r.PostFormValue("id"), r.PostFormValue("answer")
	if !slices.Contains([]string{"once", "session", "deny"}, choice) {
		http.Error(w, "answer: want once, session or deny", http.StatusBadRequest)
		return
	}
	s.decide(w, r, id, allow.Decision{Where: inBrowser, Yes: choice != "deny", Session: choice == "session", Reason: strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("reason"), "\r\n", "\n"))})
}

// decide answers a request and shows the answer in force.
func (s *Site) decide(w http.ResponseWriter, r *http.Request, id string, d allow.Decision) {
	_, first, err := s.Inbox.Decide(id, d)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	late := ""
	if !first {
		late = "&late=1"
	}
	http.Redirect(w, r, "/approvals?answered="+id+late, http.StatusSeeOther)
}

// rule shows the rule that a person can make from a request.
func (s *Site) rule(w http.ResponseWriter, r *http.Request) {
	b, _ := s.browser(r)
	id := r.URL.Query().Get("id")
	data := struct {
		ID        string
		Confirmed bool
		Rule      *allow.Rule
	}{ID: id, Confirmed: b.Key != ""}
	rule, err := s.Inbox.Propose(r.Context(), id)
	if err == nil {
		data.Rule = rule
	}
	s.show(w, http.StatusOK, "rule", &view{Title: "Make it a rule", Path: "/approvals", Data: &data}, err)
}

// makeRule writes the rule that a person saw, and lets the call pass.
func (s *Site) makeRule(w http.ResponseWriter, r *http.Request) {
	if !s.mayApprove(w, r) {
		return
	}
	id := r.PostFormValue("id")
	rule, err := s.Inbox.Propose(r.Context(), id)
	if err == nil && rule.Digest != r.PostFormValue("digest") {
		err = errors.New("the policy or its tests have changed since you saw the rule: look at it again")
	}
	if err == nil {
		err = s.Inbox.Write(rule)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.decide(w, r, id, allow.Decision{Where: inBrowser, Yes: true})
	s.Inbox.Settle(rule) // the browser gets the page when this returns
}

// revoke ends a grant.
func (s *Site) revoke(w http.ResponseWriter, r *http.Request) {
	if !s.mayApprove(w, r) {
		return
	}
	if err := s.Inbox.Revoke(r.PostFormValue("id")); err != nil {
		s.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/approvals", http.StatusSeeOther)
}

// mayApprove refuses a browser that no person has confirmed.
func (s *Site) mayApprove(w http.ResponseWriter, r *http.Request) bool {
	ok := s.Confirmed(r)
	if !ok {
		s.show(w, http.StatusForbidden, "message", &view{Title: "Not confirmed", Path: "/approvals", Error: "This browser can only look.", Hint: "The page “Approvals” shows how to confirm it."})
	}
	return ok
}

// inboxStream sends the IDs of the open requests when they change, as server-sent events.
func (s *Site) inboxStream(w http.ResponseWriter, r *http.Request) {
	send := startStream(w)
	tick := time.NewTicker(inboxPoll)
	defer tick.Stop()
	last := "none"
	for beat := 0; ; beat++ {
		var ids []string
		requests, _ := s.Inbox.Pending(s.Now()) // the page shows the error
		for i := range requests {
			ids = append(ids, requests[i].ID)
		}
		text := ""
		if now := strings.Join(ids, " "); now != last {
			last, text = now, "data: "+now+"\n\n"
		} else if beat%int(heartbeat/inboxPoll) == 0 {
			text = ": still here\n\n"
		}
		if !send(text) || !s.wait(r.Context(), tick.C, nil, nil) {
			return
		}
	}
}
