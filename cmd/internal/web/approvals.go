package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/allow"
	"github.com/grapnel-dev/grapnel/internal/approval"
)

// An Inbox has the calls that a person can approve, and the answers.
type Inbox interface {
	Requests() ([]approval.Request, error) // of the last day, the newest first
	Call(r *approval.Request) (*allow.Call, error)
	Decide(id string, d allow.Decision) (answer *approval.Answer, first bool, err error)
	Grants() ([]approval.Grant, error)
	Revoke(grant string) error
}

// inboxPoll is how often a stream looks for changes of the inbox, which is in files.
const inboxPoll = time.Second

// An asked is a request on the page.
type asked struct {
	*allow.Call
	Waits    bool   // the agent waits; otherwise it must retry the call
	Problem  string // why a person cannot approve the call
	Disabled bool   // the browser is not confirmed
}

// open returns the requests that a person can answer now, and the others.
func (s *Site) open() (open, ended []approval.Request, err error) {
	all, err := s.Inbox.Requests()
	for _, r := range all {
		if r.Open(s.Now()) {
			open = append(open, r)
		} else {
			ended = append(ended, r)
		}
	}
	return open, ended, err
}

// approvals shows the calls that wait for a person, the answers of the last day, and the grants.
func (s *Site) approvals(w http.ResponseWriter, r *http.Request) {
	b, _ := s.browser(r)
	var data struct {
		Confirmed bool
		Notice    string // about the request that was answered last
		Open      []asked
		Ended     []approval.Request
		Grants    []approval.Grant
	}
	data.Confirmed = b.Key != ""
	v := &view{Title: "Approvals", Path: "/approvals", Data: &data}
	requests, ended, err := s.open()
	problems := []string{}
	if err != nil {
		problems = append(problems, err.Error())
	}
	for i := range requests {
		call, err := s.Inbox.Call(&requests[i])
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		a := asked{Call: call, Waits: s.Now().Before(call.Request.Waits), Disabled: !data.Confirmed}
		if err := call.Allowable(); err != nil {
			a.Problem = err.Error()
		}
		data.Open = append(data.Open, a)
	}
	words := r.URL.Query()
	if i := slices.IndexFunc(ended, func(e approval.Request) bool { return e.ID == words.Get("answered") }); i >= 0 && ended[i].Answer != nil {
		switch a := ended[i].Answer; {
		case words.Get("late") != "":
			data.Notice = fmt.Sprintf("Nothing has changed: the request was %v.", a)
		case a.State == approval.Approved && ended[i].Waits.After(a.Time):
			data.Notice = "Approved: the agent continues."
		case a.State == approval.Approved:
			data.Notice = "Approved. Tell the agent to try again."
		default:
			data.Notice = "Denied: the agent does not run the call."
		}
	}
	data.Ended = ended[:min(perPage, len(ended))]
	if data.Grants, err = s.Inbox.Grants(); err != nil {
		problems = append(problems, err.Error())
	}
	v.Error = strings.Join(problems, "\n")
	s.show(w, http.StatusOK, "approvals", v)
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
	_, first, err := s.Inbox.Decide(id, allow.Decision{Yes: choice != "deny", Session: choice == "session", Reason: strings.TrimSpace(r.PostFormValue("reason"))})
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
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(inboxPoll)
	defer tick.Stop()
	last, beat := "none", 0
	for {
		requests, _, _ := s.open() // the page shows the error
		ids := make([]string, len(requests))
		for i := range requests {
			ids[i] = requests[i].ID
		}
		text := ""
		if now := strings.Join(ids, " "); now != last {
			last, text = now, "data: "+now+"\n\n"
		} else if beat++; beat%15 == 0 {
			text = ": still here\n\n"
		}
		if _, err := w.Write([]byte(text)); err != nil || control.Flush() != nil || !s.wait(r.Context(), tick.C, nil) {
			return
		}
	}
}
