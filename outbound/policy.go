package outbound

import (
	"time"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// PolicyOptions returns the options of a client for the servers that policies open.
func PolicyOptions(r policyfile.Reach) (Options, error) {
	guard, err := ParseGuard(r.Networks)
	return Options{Guard: guard, CA: r.CA}, err
}

// SetReach replaces the servers that the policies open, see [Client.Set]. After an error, nothing has changed.
func (c *Client) SetReach(r policyfile.Reach) error {
	guard, err := ParseGuard(r.Networks)
	if err == nil {
		c.Set(guard, r.CA)
	}
	return err
}

// PolicyWebhook returns the hook for a webhook in a policy. It returns an error if the client's
// guard forbids the address.
func (c *Client) PolicyWebhook(w policyfile.Webhook) (*Webhook, error) {
	return c.Webhook(Config{
		Name: w.Name, URL: w.URL, Headers: w.Headers, Timeout: time.Duration(w.Timeout), MaxInFlight: w.MaxInFlight, Body: w.Body,
	})
}

// PolicyHook returns the hook for an `http:` action in a policy. The secrets must be resolved;
// see [policyfile.HTTP.Resolve]. It returns an error if the client's guard forbids the address.
func (c *Client) PolicyHook(h policyfile.HTTP) (*Hook, error) {
	return c.Hook(HookConfig{
		Name: h.Name, URL: h.URL, Secrets: h.Secrets, Headers: h.Headers, Timeout: time.Duration(h.Timeout), Body: h.Body,
		Failures: h.Breaker.Failures, Cooldown: time.Duration(h.Breaker.Cooldown),
	})
}
