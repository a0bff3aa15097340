package agenthooks

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Request asks a Resolver to lift a deny.
type Request struct {
	ContextIdentity *string         `json:"context_identity"` // identity of Context; nil if the provider gives no identities
	Point           string          `json:"interception_point"`
	Verdict         Verdict         `json:"verdict"` // the deny
	Context         json.RawMessage `json:"context"` // with all transforms applied, and redacted
}

// A Resolution answers a Request. It must repeat the identity of the context in the Request, so
// that the approval applies to exactly that context.
type Resolution struct {
	Outcome         Resolved        `json:"outcome"`
	ContextIdentity *string         `json:"context_identity"`
	Verdict         json.RawMessage `json:"verdict,omitempty"` // replaces the deny; must be absent for Unresolved
}

// Resolved is the outcome of a Request.
type Resolved string

// The outcomes.
const (
	Approve    Resolved = "approve"    // with an allow or a transform
	Reject     Resolved = "reject"     // with a deny
	Unresolved Resolved = "unresolved" // not decided: the deny remains
)

// A Resolver decides Requests, for example by asking a person. If it returns an error, the deny
// remains. It is called while the agent waits, and concurrently if tools run in parallel.
type Resolver func(ctx context.Context, r *Request) (Resolution, error)

// A Redactor removes data from a context that a Resolver must not get. It must remove the data
// from target and from the member that repeats target, and returns the removed paths. It may
// modify the context, which is a copy. A Resolution must repeat the identity of the redacted
// context. If the Redactor returns an error, the Resolver is not called and the deny remains.
type Redactor func(context json.RawMessage) (redacted json.RawMessage, removed []string, err error)

// ask asks the Resolver to lift a deny. It returns the verdict that replaces the deny, and
// whether that verdict permits the step.
func (h *Hooks) ask(ctx context.Context, v *Verdict, em *emission) (Verdict, bool) {
	shown, err := h.redacted(ctx, em)
	if err != nil {
		return denied(reasonResolverFailed, "redacting: "+failureOf(err)), false
	}
	identity, err := h.identity.of(shown)
	if err != nil {
		return denied(reasonResolverFailed, err.Error()), false
	}
	request := &Request{ContextIdentity: identity, Point: em.point.name, Verdict: *v, Context: shown.copy()}
	answer, err := within(ctx, h.opts.ApprovalTimeout, func(ctx context.Context) (Resolution, error) { return h.opts.Resolve(ctx, request) })
	if err != nil {
		return denied(reasonResolverFailed, failureOf(err)), false
	}
	return settle(identity, &answer)
}

// redacted returns the emission with redacted data, for the Resolver.
func (h *Hooks) redacted(ctx context.Context, em *emission) (*emission, error) {
	if h.opts.Redact == nil {
		return em, nil
	}
	type redaction struct {
		context json.RawMessage
		removed []string
	}
	r, err := within(ctx, 0, func(context.Context) (r redaction, err error) {
		r.context, r.removed, err = h.opts.Redact(em.copy())
		return r, err
	})
	if err != nil {
		return nil, err
	}
	tree, err := parseContext(r.context)
	if err != nil {
		return nil, err
	}
	if len(r.removed) > 0 {
		removed := make([]any, len(r.removed))
		for i, path := range r.removed {
			removed[i] = path
		}
		tree = put(tree, "extensions."+namespace+".redacted", removed)
	}
	return newEmission(em.point, tree, em.ev)
}

// settle checks the Resolution of a Request, in the order of the specification.
func settle(identity *string, r *Resolution) (Verdict, bool) {
	if (identity == nil) != (r.ContextIdentity == nil) || identity != nil && *identity != *r.ContextIdentity {
		return denied(reasonMismatch, ""), false
	}
	has := len(r.Verdict) > 0 && string(r.Verdict) != "null"
	switch r.Outcome {
	case Approve, Reject:
		if !has {
			return denied(reasonResolverFailed, "the resolution has no verdict"), false
		}
	case Unresolved:
		if has {
			return denied(reasonResolverFailed, "the resolution is unresolved, but has a verdict"), false
		}
		return denied(reasonUnresolved, ""), false
	default:
		return denied(reasonResolverFailed, "the resolution's outcome is unknown"), false
	}
	v, wrong := readVerdict(r.Verdict)
	switch {
	case wrong != "":
		return denied(reasonVerdictInvalid, wrong), false
	case v.permits() != (r.Outcome == Approve):
		return denied(reasonVerdictInvalid, "the resolution's verdict contradicts its outcome"), false
	}
	return v, v.permits()
}

// within calls f in a new goroutine and waits for it until limit or until ctx is done; limit 0 =
// until ctx is done. A late call is abandoned, and its result is discarded.
func within[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	var cancel context.CancelFunc
	if limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errLate)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	type ending struct {
		value T
		err   error
	}
	done := make(chan ending, 1)
	go func() {
		end := ending{err: errors.New("ended its goroutine")} // stays if f calls runtime.Goexit
		defer func() {
			if r := recover(); r != nil {
				end.err = &panicked{r}
			}
			done <- end
		}()
		end.value, end.err = f(ctx)
	}()
	select {
	case end := <-done:
		if end.err != nil && ctx.Err() != nil {
			end.err = context.Cause(ctx)
		}
		return end.value, end.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
