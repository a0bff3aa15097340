package hookcmd

import (
	"context"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A judge gets the part that an engine leaves to the caller: a firing, or the firing in the context.
type judge interface {
	grapnel.Observer
	Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error
	Find(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval
}

// opening is how a process opens the policies: for one event, or in the daemon for many. The set that
// is opened lists the servers that a hook may reach.
type opening struct {
	place local.Place
	spool *spool.Spool
	judge judge
	set   func() *load.Set

	program func(policyfile.Command) grapnel.Hook
	send    func(ctx context.Context, hook string, question []byte) (ask.Reply, error) // asks the server of a hook
	look    WebhookCheck
}

// options returns the options of an engine for files.
func (o *opening) options(files []load.File, unread bool) *local.Options {
	return &local.Options{
		Place: &o.place, Files: files, Unread: unread, Settled: true,
		Runners: policy.Runners{
			Command: o.program,
			HTTP: func(h policyfile.HTTP) (grapnel.Hook, error) {
				send := func(ctx context.Context, question []byte) (ask.Reply, error) { return o.send(ctx, h.Name, question) }
				return &ask.Hook{HTTP: h, Reach: func() policyfile.Reach { return o.set().Reach }, Circuits: o.spool, Send: send}, nil
			},
			Notify:  late.Notify,
			Webhook: func(w policyfile.Webhook) (grapnel.Hook, error) { return checkedWebhook(o.place, w, o.look) },
		},
		Observers: []grapnel.Observer{o.judge}, Approved: o.judge.Find, Background: o.judge.Run, Stops: o.spool.Blocked, Counter: o.spool,
	}
}
