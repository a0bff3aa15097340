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
)

const (
	// DefaultTimeout is the Timeout of a webhook that names none.
	DefaultTimeout = 2 * time.Second
	// MaxTimeout is the longest Timeout.
	MaxTimeout = 30 * time.Second
	// DefaultMaxInFlight is the MaxInFlight of a webhook that names none.
	DefaultMaxInFlight = 32
)

// A Config is what a file says about a webhook. It has no say in which networks are
// open.
type Config struct {
	Name        string            // of the hook, with its source: it is part of the body
	URL         string            // https
	Headers     map[string]string // beside our own
	Timeout     time.Duration     // of one delivery, from the lookup to the end of the answer; 0 = DefaultTimeout
	MaxInFlight int               // how many deliveries of Handle may be under way; 0 = DefaultMaxInFlight
	Body        string            // whose words it is in: empty = ours, or ironclaw
}

// A Webhook is a hook that tells a URL of events and has no say in them. It is safe for
// concurrent use.
type Webhook struct {
	client  *Client
	name    string
	url     *url.URL
	header  http.Header
	timeout time.Duration
	body    body
	permits chan struct{} // one for each delivery under way
}

// Webhook makes a webhook. An error says the first that is wrong with it, in the order
// of the [Fault] constants.
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
	names := slices.Sorted(maps.Keys(cfg.Headers)) // the same error each time
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
		return nil, fault(BadTimeout, "timeout %v: it is more than 0 and at most %v", cfg.Timeout, MaxTimeout)
	case cap(w.permits) == 0:
		return nil, fault(BadMaxInFlight, "max_in_flight %d: it is at least 1", cfg.MaxInFlight)
	case !known:
		return nil, fault(BadBody, "nobody knows the body %q", cfg.Body)
	}
	return w, nil
}

// Handle has the event delivered and returns at once, without an opinion. When as many
// deliveries are under way as may be, the event is dropped. What is dropped, or fails
// later, is told to [Options].Failed.
func (w *Webhook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	select {
	case w.permits <- struct{}{}: // before anything is started, or a slow server would fill our memory
	default:
		w.client.opts.Failed(w.name, fault(Dropped, "%d deliveries are under way, as many as may be", cap(w.permits)))
		return grapnel.Outcome{}, nil
	}
	// The event is the caller's again when we return, and may be large.
	text, err := w.text(ev)
	if err != nil {
		<-w.permits
		w.client.opts.Failed(w.name, err)
		return grapnel.Outcome{}, nil
	}
	ctx = context.WithoutCancel(ctx) // whoever fires the event does not wait
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
	text, err := w.text(ev)
	if err != nil {
		return err
	}
	return w.send(ctx, text)
}

// text is what is said about an event.
func (w *Webhook) text(ev *grapnel.Event) ([]byte, error) {
	return w.body.write(w.name, ev, cmp.Or(ev.Time, time.Now()))
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
		return fault(Redirect, "%s answered with a redirect (status %d), which is not followed: give the URL that it leads to", w.url.Hostname(), status)
	default:
		return fault(Refused, "%s answered with status %d", w.url.Hostname(), status)
	}
}
