package outbound

import (
	"time"

	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// PolicyWebhook makes the hook of a webhook in a policy. It fails if the guard of the
// client forbids the address.
func (c *Client) PolicyWebhook(w hookfiles.Webhook) (*Webhook, error) {
	return c.Webhook(Config{
		Name: w.Name, URL: w.URL, Headers: w.Headers, Timeout: time.Duration(w.Timeout), MaxInFlight: w.MaxInFlight, Body: w.Body,
	})
}

// PolicyHook makes the hook of an `http:` in a policy, whose secrets were resolved; see
// [policyfile.HTTP.Resolve]. It fails if the guard of the client forbids the address.
func (c *Client) PolicyHook(h policyfile.HTTP) (*Hook, error) {
	return c.Hook(HookConfig{
		Name: h.Name, URL: h.URL, Secrets: h.Secrets, Headers: h.Headers, Timeout: time.Duration(h.Timeout), Body: h.Body,
		Failures: h.Breaker.Failures, Cooldown: time.Duration(h.Breaker.Cooldown),
	})
}
