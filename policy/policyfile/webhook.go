package policyfile

// A Webhook is an address that receives events and cannot decide about them.
type Webhook struct {
	Name        string            `json:"name"` // name of the hook, with its source; part of the body
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers,omitempty"`
	Timeout     Duration          `json:"timeout,omitempty"`
	MaxInFlight int               `json:"max_in_flight,omitempty"`
	Body        string            `json:"body,omitempty"` // format of the body; empty = Grapnel's
}
