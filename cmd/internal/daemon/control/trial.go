package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/certs"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Trial is the result of an example event that was sent through a `notify:` hook.
type Trial struct {
	Hook      string `json:"hook"`
	To        string `json:"to"`   // the host of the address, or the server and the recipients of an e-mail
	Sent      string `json:"sent"` // the body, or the e-mail
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status,omitempty"`
	Answer    string `json:"answer,omitempty"` // the beginning of the server's answer
	Error     string `json:"error,omitempty"`
	Next      string `json:"next"` // the next step of the operator
}

// TryHook sends one example event through the `notify:` hook with a name, from the policies that apply in a
// directory. It stores nothing. The error means that nothing could be sent.
func TryHook(ctx context.Context, place local.Place, dir, name string) (*Trial, error) {
	var targets []policyfile.HTTP
	set := load.Policies(place.Request(place.Files(nil, place.DirsOf(dir)), dryrun.Runners(func(c dryrun.Call) (grapnel.Hook, error) {
		if c.Target != nil {
			targets = append(targets, *c.Target)
		}
		return nil, nil
	})))
	h, err := hookNamed(targets, name)
	if err != nil {
		return nil, err
	}
	event, err := example(dir, h, &set, place.Identity())
	if err != nil {
		return nil, err
	}
	resolved, err := h.Resolve()
	if err != nil {
		return nil, fmt.Errorf("hook %q: %w", h.Name, err)
	}
	d := &webhook.Delivery{ID: "test_" + rand.Text(), Target: h.FullName(), Event: event, Created: time.Now()}
	t := &Trial{Hook: h.FullName(), To: h.Address()}
	if t.Sent, err = shown(&resolved, d); err != nil {
		return nil, fmt.Errorf("hook %q: %w", h.Name, err)
	}
	if u, err := url.Parse(h.URL); err == nil && h.SMTP == nil {
		t.To = u.Scheme + "://" + u.Host // the rest can be secret
	}
	client, err := remote.NewClient(set.Reach, 0)
	if err != nil {
		return nil, err
	}
	reply, failed := webhook.Send(ctx, client, &resolved, d)
	t.Status, t.Answer, t.Delivered = reply.Status, reply.Text, failed == nil
	t.Next = nextStep(h, reply, failed)
	if failed != nil {
		t.Error = failed.Error()
	}
	return t, client.Close(context.WithoutCancel(ctx))
}

// hookNamed finds a hook by its full name, or by its name alone if that is unique.
func hookNamed(targets []policyfile.HTTP, name string) (*policyfile.HTTP, error) {
	var near []*policyfile.HTTP
	var known []string
	for i := range targets {
		h := &targets[i]
		if known = append(known, h.Name); h.FullName() == name {
			return h, nil
		}
		if h.Name == name {
			near = append(near, h)
		}
	}
	switch {
	case len(near) == 1:
		return near[0], nil
	case len(near) > 1:
		return nil, cli.WithHint(fmt.Errorf("%d hooks have the name %q", len(near), name), "use a full name: "+near[0].FullName()+", "+near[1].FullName())
	case len(known) == 0:
		return nil, cli.WithHint(fmt.Errorf("no hook %q found: no policy that applies here has a `notify:` hook", name), "grapnel hooks")
	default:
		return nil, cli.WithHint(fmt.Errorf("no `notify:` hook %q found", name), "known hooks: "+strings.Join(known, ", "))
	}
}

// example returns an event for a hook: a blocked shell line, or an event that the hook listens to.
func example(dir string, h *policyfile.HTTP, set *load.Set, id local.Identity) ([]byte, error) {
	kind := grapnel.ToolBefore
	i := slices.IndexFunc(set.Specs, func(s grapnel.Spec) bool { return s.Name == h.Name && s.Source.Name == h.Source })
	if i >= 0 && len(set.Specs[i].On) > 0 && !slices.Contains(set.Specs[i].On, kind) {
		kind = set.Specs[i].On[0]
	}
	ev, err := sample.Call(dir, "Bash", map[string]any{"command": "echo 'a test of Grapnel' # <b>&amp;</b>"})
	if kind != grapnel.ToolBefore {
		if other, err := sample.Event(dir, kind); err == nil {
			ev = other
		}
	}
	if err != nil {
		return nil, err
	}
	v := &grapnel.Verdict{}
	if ev.Kind == grapnel.ToolBefore {
		v.Decision, v.Reasons = grapnel.Block, []grapnel.Reason{{Hook: h.FullName(), Text: "This is a test of the hook " + h.Name + ". Nothing was blocked.", Cause: grapnel.CauseDecision}}
	}
	ev.ID, ev.Time = "test", time.Now()
	return webhook.Event(ev.WithVerdict(v), id.Origin(set, set.Digest()).For(h.Name, h.Source, v))
}

// shown returns the request of a hook. The topic of ntfy is left out, because it gives access to all messages.
func shown(h *policyfile.HTTP, d *webhook.Delivery) (string, error) {
	if h.SMTP != nil {
		m, err := webhook.Mail(h, d)
		return string(m.Data), err
	}
	m, err := webhook.Message(h, d)
	if h.Body == webhook.BodyNtfy {
		return strings.Replace(string(m.Body), `"topic":"`+h.URL[strings.LastIndexByte(h.URL, '/')+1:]+`"`, `"topic":"***"`, 1), err
	}
	return string(m.Body), err
}

// nextStep returns the next step of the operator.
func nextStep(h *policyfile.HTTP, reply outbound.Reply, failed error) string {
	form := webhook.FormOf(h.URL)
	known, _ := errors.AsType[*outbound.Error](failed)
	switch {
	case failed == nil:
		return `the hook works: "grapnel deliveries" lists what it sends`
	case h.SMTP != nil && reply.Status >= 530 && reply.Status <= 535:
		return "check `user` and `password` of the hook"
	case form != "" && form != h.Body && len(h.Members) == 0:
		return "write `body: " + form + "` into the hook"
	case reply.Status == 401 || reply.Status == 403:
		return "check the address and `headers` of the hook: the server does not know who sends"
	case reply.Status == 404 || reply.Status == 410:
		return "check the address of the hook: the server has nothing there"
	case reply.Status >= 400 && reply.Status < 500 && h.SMTP == nil:
		return "check `body` of the hook: the server does not accept what was sent"
	case known != nil && (known.Fault == outbound.ForbiddenIP || known.Fault == outbound.DNSForbiddenIP || known.Fault == outbound.ForbiddenHost):
		return "list the server in `networks:` of your own policy, if the hook may reach it"
	}
	return cmp.Or(certs.Hint(failed), "Grapnel retries deliveries: try again later")
}
