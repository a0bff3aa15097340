package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A webhookDef is the case's definition of a webhook, in the format of a bundle.
type webhookDef struct {
	Name        string            `json:"name"`
	Points      []string          `json:"points"`
	Priority    *int              `json:"priority"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	TimeoutMS   *int              `json:"timeout_ms"`
	MaxInFlight *int              `json:"max_in_flight"`
}

// config returns the definition as a client's Config. An explicit 0 becomes -1, because 0 means
// the default in a Config.
func (def *webhookDef) config(hook *hookDef) outbound.Config {
	cfg := outbound.Config{
		Name: cmp.Or(hook.Name, def.Name), URL: def.URL, Headers: def.Headers, Timeout: inMS(hook.TimeoutMS), Body: ironclaw.name,
	}
	if def.TimeoutMS != nil {
		cfg.Timeout = cmp.Or(inMS(*def.TimeoutMS), -1)
	}
	if def.MaxInFlight != nil {
		cfg.MaxInFlight = cmp.Or(*def.MaxInFlight, -1)
	}
	return cfg
}

// webhook makes a hook that sends events to the bench's web. It runs at the same place as in
// IronClaw: in the chain, after the rules.
func (w *watched) webhook(s *grapnel.Spec) error {
	var def webhookDef
	if err := w.decode(&def); err != nil {
		return err
	}
	var on []grapnel.Kind
	for _, native := range def.Points {
		kind, err := w.bench.family.kindOf(native)
		if err != nil {
			return err
		}
		on = append(on, kind)
	}
	if on != nil {
		s.On = on
	}
	s.Priority = policyfile.SpecPriority(cmp.Or(w.def.Priority, def.Priority, new(300)))
	client, err := w.bench.client()
	if err != nil {
		return err
	}
	cfg := def.config(w.def)
	hook, err := client.Webhook(cfg)
	if err != nil {
		return err
	}
	s.Timeout = cmp.Or(s.Timeout, cfg.Timeout, outbound.DefaultTimeout)
	w.inner = func(*call) grapnel.Hook { return hook }
	return nil
}

// A failure is an event that was not delivered to a webhook.
type failure struct {
	hook  string
	fault outbound.Fault
}

// client returns a client for webhooks on the bench's web. The first call starts the web.
func (b *bench) client() (*outbound.Client, error) {
	if b.clients != nil {
		return b.clients, nil
	}
	var err error
	if b.web, err = newWeb(script{}); err != nil {
		return nil, err
	}
	b.clients = outbound.NewClient(&outbound.Options{
		RootCAs: b.web.roots, Resolver: b.web, Dial: b.web.dial,
		Failed: func(hook string, err error) {
			f := failure{hook: hook}
			if known, ok := errors.AsType[*outbound.Error](err); ok {
				f.fault = known.Fault
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.failed = append(b.failed, f)
		},
	})
	return b.clients, nil
}

// delivered waits until all deliveries have ended, and returns those that failed.
func (b *bench) delivered(ctx context.Context) ([]failure, error) {
	if b.clients == nil {
		return nil, errors.New("no webhook exists")
	}
	err := b.clients.Close(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed, err
}

// webhookBody fires one event and compares the request of a webhook.
func webhookBody(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input json.RawMessage `json:"input"`
		Plan  plan            `json:"plan"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	def := eventDef{Event: grapnel.Kind(c.Event), Native: c.Native, Input: d.Input}
	b, err := d.Plan.bench(c.Dialect, def.Event)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	v, err := b.dispatch(ctx, &def)
	if err != nil {
		return nil, err
	}
	if _, err := b.delivered(ctx); err != nil {
		return nil, err
	}
	got := b.web.got()
	if len(got) != 1 {
		return []Diff{{Key: "requests", Want: 1, Got: len(got)}}, nil
	}
	body, err := tree(got[0].body)
	if err != nil {
		return nil, err
	}
	v["method"], v["body"] = got[0].method, body
	v["headers"] = probe(func(want any) any {
		members, _ := want.(map[string]any)
		headers := map[string]any{}
		for name := range members {
			headers[name] = strings.Join(got[0].header.Values(name), ", ")
		}
		return headers
	})
	v["body_must_not_contain"] = probe(func(want any) any {
		return slices.DeleteFunc(texts(want), func(text string) bool { return bytes.Contains(got[0].all, []byte(text)) })
	})
	return c.compare(v), nil
}

// webhookDelivery fires concurrent events at webhooks, and compares the results of the
// deliveries.
func webhookDelivery(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input      json.RawMessage `json:"input"`
		Plan       plan            `json:"plan"`
		Dispatches int             `json:"dispatches"`
		Server     struct {
			DelayMS  int             `json:"delay_ms"`
			Status   int             `json:"status"`
			Location string          `json:"location"`
			Refuse   bool            `json:"refuse"`
			DNS      json.RawMessage `json:"dns"` // null or an error: lookups fail
		} `json:"server"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	def := eventDef{Event: grapnel.Kind(c.Event), Native: c.Native, Input: d.Input}
	b, err := d.Plan.bench(c.Dialect, def.Event)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	if _, err := b.client(); err != nil {
		return nil, err
	}
	b.web.script = script{Delay: inMS(d.Server.DelayMS), Status: d.Server.Status, Headers: map[string]string{}}
	switch dns := d.Server.DNS; {
	case string(dns) == "null" || errorOf(dns) != nil:
		b.web.script.NoDNS = true
	case len(dns) > 0:
		if err := strict(dns, &b.web.script.DNS); err != nil {
			return nil, err
		}
	}
	if d.Server.Location != "" {
		b.web.script.Headers["Location"] = d.Server.Location
	}
	if d.Server.Refuse {
		b.web.close()
	}
	ev, err := def.event(b)
	if err != nil {
		return nil, err
	}
	var fired sync.WaitGroup
	verdicts := make([]grapnel.Verdict, max(1, d.Dispatches))
	took := make([]time.Duration, len(verdicts))
	began := time.Now()
	for i := range verdicts {
		fired.Go(func() {
			began := time.Now()
			verdicts[i] = b.engine.Fire(ctx, ev)
			took[i] = time.Since(began)
		})
	}
	fired.Wait()
	failed, err := b.delivered(ctx)
	if err != nil {
		return nil, err
	}
	v := view{
		"decision": "continue", "requests": len(b.web.got()), "requests_at_once": b.web.most, "warnings": []warning{}, "over_limit": 0, "queued": 0, "recorded": nil,
		"ms": slices.Max(took).Milliseconds(), "delivery_ms": time.Since(began).Milliseconds(),
	}
	for _, verdict := range verdicts {
		switch {
		case verdict.Decision == grapnel.Block:
			v["decision"] = "block"
		case len(verdict.Changes) > 0:
			v["decision"] = "modify"
		}
	}
	var dropped []warning
	for _, f := range failed {
		switch f.fault {
		case outbound.Dropped:
			dropped = append(dropped, warning{f.hook, "dropped_in_flight"})
		case outbound.ForbiddenIP, outbound.DNSForbiddenIP:
			v["recorded"] = "blocked_by_network_policy"
		default:
			v["recorded"] = "delivery_failed"
		}
	}
	if len(dropped) > 0 {
		v["warnings"], v["over_limit"] = dropped, len(dropped)
	}
	return c.compare(v), nil
}
