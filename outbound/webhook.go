package outbound

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

const (
	// DefaultTimeout is the time limit of a webhook if its Timeout is 0.
	DefaultTimeout = 2 * time.Second
	// MaxTimeout is the maximum Timeout.
	MaxTimeout = 30 * time.Second
	// DefaultMaxInFlight is the limit of a webhook if its MaxInFlight is 0.
	DefaultMaxInFlight = 32
)

// A Config is the configuration of a webhook in a file. It cannot open networks.
type Config struct {
	Name        string            // name of the hook, with its source; it is part of the body
	URL         string            // https
	Headers     map[string]string // additional headers
	Timeout     time.Duration     // limit for one delivery, from the lookup to the end of the response; 0 = DefaultTimeout
	MaxInFlight int               // maximum number of concurrent deliveries of Handle; 0 = DefaultMaxInFlight
	Body        string            // format of the body; empty = Grapnel's. See WriteBody
}

// A Webhook is a hook that notifies a URL of events and never has an opinion. It is safe for
// concurrent use.
type Webhook struct {
	client  *Client
	name    string
	url     *url.URL
	header  http.Header
	timeout time.Duration
	body    body
	permits chan struct{} // one entry for each running delivery
}

// Webhook returns a webhook. The error describes the first problem of cfg, in the order of the
// [Fault] constants.
func (c *Client) Webhook(cfg Config) (*Webhook, error) {
	w, err := c.newWebhook(cfg)
	if err != nil {
		return nil, fmt.Errorf("webhook %q: %w", cfg.Name, err)
	}
	return w, nil
}

func (c *Client) newWebhook(cfg Config) (*Webhook, error) {
	u, err := c.Guard().CheckURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	names := slices.Sorted(maps.Keys(cfg.Headers)) // sorted, so that the error is always the same
	if err := CheckHeaders(func(yield func(string, string) bool) {
		for _, name := range names {
			if !yield(name, cfg.Headers[name]) {
				return
			}
		}
	}); err != nil {
		return nil, err
	}
	w := &Webhook{
		client: c, name: cfg.Name, url: u, header: http.Header{"User-Agent": {"grapnel"}},
		timeout: cmp.Or(cfg.Timeout, DefaultTimeout), permits: make(chan struct{}, max(0, cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight))),
	}
	for name, value := range cfg.Headers {
		w.header.Set(name, value)
	}
	w.header.Set("Content-Type", "application/json")
	var known bool
	w.body, known = bodies[cfg.Body]
	switch {
	case w.timeout < 0 || w.timeout > MaxTimeout:
		return nil, fault(BadTimeout, "timeout %v: must be more than 0 and at most %v", cfg.Timeout, MaxTimeout)
	case cap(w.permits) == 0:
		return nil, fault(BadMaxInFlight, "max_in_flight %d: must be at least 1", cfg.MaxInFlight)
	case !known:
		return nil, fault(BadBody, "unknown body %q", cfg.Body)
	}
	return w, nil
}

// Handle starts the delivery of the event and returns immediately, without an opinion. If
// MaxInFlight deliveries are running, it drops the event. [Options].Failed gets all dropped
// events and failed deliveries.
func (w *Webhook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	select {
	case w.permits <- struct{}{}: // limits memory use if the server is slow
	default:
		w.client.opts.Failed(w.name, fault(Dropped, "%d deliveries are in progress, which is the maximum", cap(w.permits)))
		return grapnel.Outcome{}, nil
	}
	// Encode now, because the caller may reuse the event after the return, and it may be large.
	text, err := w.text(ctx, ev)
	if err != nil {
		<-w.permits
		w.client.opts.Failed(w.name, err)
		return grapnel.Outcome{}, nil
	}
	ctx = context.WithoutCancel(ctx) // the delivery continues when the caller's context ends
	started := w.client.start(func() {
		defer func() { <-w.permits }()
		if err := w.send(ctx, text); err != nil {
			w.client.opts.Failed(w.name, err)
		}
	})
	if !started {
		<-w.permits
		w.client.opts.Failed(w.name, fault(Dropped, "the client is closed"))
	}
	return grapnel.Outcome{}, nil
}

// Deliver delivers one event and waits for the answer. An error is an [*Error].
func (w *Webhook) Deliver(ctx context.Context, ev *grapnel.Event) error {
	text, err := w.text(ctx, ev)
	if err != nil {
		return err
	}
	return w.send(ctx, text)
}

// text returns the notification about an event.
func (w *Webhook) text(ctx context.Context, ev *grapnel.Event) ([]byte, error) {
	text, err := w.body.write(w.name, ev, cmp.Or(ev.Time, time.Now()))
	if err == nil && !w.body.closed {
		text, err = wire.Originated(text, wire.OriginFrom(ctx))
	}
	return text, err
}

func (w *Webhook) send(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, w.timeout))
	defer cancel()
	status, err := w.client.post(ctx, w.url, w.header.Clone(), text)
	switch {
	case err != nil:
		return err
	case w.body.anyStatus, status < 300:
		return nil
	case status < 400:
		return fault(Redirect, "%s answered with a redirect (status %d), which Grapnel does not follow: use the URL of its target", w.url.Hostname(), status)
	default:
		return fault(Refused, "%s answered with status %d", w.url.Hostname(), status)
	}
}
