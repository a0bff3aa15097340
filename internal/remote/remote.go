// Package remote runs hooks that ask a server, and webhooks.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Ask sends an event to a server with a new client. The caller handles the circuit breaker.
func Ask(ctx context.Context, q ask.Question) ask.Reply {
	client, err := NewClient(q.Reach, 0)
	if err != nil {
		return ask.Reply{Error: err.Error()}
	}
	return askBy(ctx, client, q)
}

// A Pool sends events from a long-running process and keeps connections open. It is safe for
// concurrent use.
type Pool struct {
	mu      sync.Mutex
	clients map[string]*outbound.Client // by what they may reach, in JSON
}

// KeepIdle is the time after which an unused connection to a server is closed.
const KeepIdle = 30 * time.Second

// maxClients limits the number of clients in a Pool.
const maxClients = 16

// NewPool returns an empty Pool.
func NewPool() *Pool { return &Pool{clients: map[string]*outbound.Client{}} }

// Ask sends an event to a server.
func (s *Pool) Ask(ctx context.Context, q ask.Question) ask.Reply {
	client, err := s.client(q.Reach)
	if err != nil {
		return ask.Reply{Error: err.Error()}
	}
	return askBy(ctx, client, q)
}

// Send is [Pool.Ask] for a question in JSON, see [ask.Hook].
func (s *Pool) Send(ctx context.Context, question []byte) (ask.Reply, error) {
	var q ask.Question
	if err := json.Unmarshal(question, &q); err != nil {
		return ask.Reply{}, err
	}
	return s.Ask(ctx, q), nil
}

func (s *Pool) client(reach policyfile.Reach) (*outbound.Client, error) {
	text, err := json.Marshal(reach)
	if err != nil {
		return nil, err
	}
	key := string(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[key]; client != nil {
		return client, nil
	}
	client, err := NewClient(reach, KeepIdle)
	if err == nil && len(s.clients) < maxClients {
		s.clients[key] = client
	}
	return client, err
}

// Close closes all connections.
func (s *Pool) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, client := range s.clients {
		errs = append(errs, client.Close(ctx))
	}
	return errors.Join(errs...)
}

// NewClient returns a client that keeps connections open for idle; 0 = it keeps none.
func NewClient(reach policyfile.Reach, idle time.Duration) (*outbound.Client, error) {
	opts, err := outbound.PolicyOptions(reach)
	if err != nil {
		return nil, err
	}
	opts.KeepIdle = idle
	return outbound.NewClient(&opts), nil
}

func askBy(ctx context.Context, client *outbound.Client, q ask.Question) ask.Reply {
	if !q.Until.IsZero() {
		var done context.CancelFunc
		ctx, done = context.WithDeadlineCause(ctx, q.Until, fmt.Errorf("%w of %v", grapnel.ErrTimeout, time.Duration(q.HTTP.Timeout)))
		defer done()
	}
	h, err := client.PolicyHook(q.HTTP)
	if err == nil && len(q.Event) == 0 {
		err = errors.New("cannot read the question: the event is missing")
	}
	if err != nil {
		return ask.Reply{Error: err.Error()}
	}
	text, err := h.Ask(ctx, q.ID, q.Event)
	if err != nil {
		return ask.Reply{Error: err.Error(), Failed: outbound.ServerFailed(err), Timeout: errors.Is(err, grapnel.ErrTimeout)}
	}
	return ask.Reply{Answer: text}
}

// Look returns an error if a server cannot be asked or notified. It does not need the secrets of
// the hook, because the caller may not have them.
func Look(h policyfile.HTTP, reach policyfile.Reach) (grapnel.Hook, error) {
	h.Secrets, h.Body = nil, ""
	shown := make(map[string]string, len(h.Headers))
	for name, value := range h.Headers {
		if shown[name] = value; strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
			shown[name] = "x"
		}
	}
	h.Headers = shown
	client, err := NewClient(reach, 0)
	if err != nil {
		return nil, err
	}
	if s := h.SMTP; s != nil {
		return noop.Hook{}, client.Guard().CheckMail(outbound.Mail{Server: s.Server, From: s.From, To: s.To})
	}
	hook, err := client.PolicyHook(h)
	if err != nil {
		return nil, errors.Unwrap(err) // without the name, which the caller adds
	}
	return hook, nil
}

// Unresolved returns the reason why a secret or header of a hook cannot be resolved here, or "".
// grapnel-hook resolves it in the agent's environment, which may be different.
func Unresolved(file string, h *policyfile.Hook) string {
	if h.HTTP == nil {
		return ""
	}
	asked := *h.HTTP
	asked.Dir = filepath.Dir(file)
	if abs, err := filepath.Abs(file); err == nil {
		asked.Dir = filepath.Dir(abs)
	}
	if _, err := asked.Resolve(); err != nil {
		return err.Error()
	}
	return ""
}

// LookWebhook returns an error if the address or a header of a webhook is forbidden.
func LookWebhook(w policyfile.Webhook, reach policyfile.Reach) error {
	_, err := NewWebhook(w, reach)
	return err
}

// NewWebhook makes a hook from a webhook of a policy. It returns an error if the address is
// forbidden.
func NewWebhook(w policyfile.Webhook, reach policyfile.Reach) (*outbound.Webhook, error) {
	client, err := NewClient(reach, 0)
	if err != nil {
		return nil, err
	}
	return client.PolicyWebhook(w)
}
