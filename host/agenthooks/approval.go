package agenthooks

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Request asks for a deny to be lifted.
type Request struct {
	ContextIdentity *string         `json:"context_identity"` // of Context; nil where the provider gives none
	Point           string          `json:"interception_point"`
	Verdict         Verdict         `json:"verdict"` // the deny
	Context         json.RawMessage `json:"context"` // as transforms have left it, and redacted
}

// A Resolution answers a Request. It has to repeat the identity of what it was shown, so
// that nobody approves one thing and gets another.
type Resolution struct {
	Outcome         Resolved        `json:"outcome"`
	ContextIdentity *string         `json:"context_identity"`
	Verdict         json.RawMessage `json:"verdict,omitempty"` // what takes the place of the deny; of Unresolved there is none
}

// Resolved is what came of a Request.
type Resolved string

// What can come of one.
const (
	Approve    Resolved = "approve"    // with an allow or a transform
	Reject     Resolved = "reject"     // with a deny
	Unresolved Resolved = "unresolved" // nobody decided: it stays denied
)

// A Resolver decides Requests, by asking a person for one. An error means that it could
// not: then it stays denied. It is called where the agent waits, and by many goroutines
// at once where tools run together.
type Resolver func(ctx context.Context, r *Request) (Resolution, error)

// A Redactor takes out of a context what whoever resolves approvals must not see, both
// in target and in the member that repeats it, and returns the paths of what it took. It
// may write into the context, which is a copy. The identity that an answer has to repeat
// is that of the redacted context. An error means that nobody is asked, and it stays
// denied.
type Redactor func(context json.RawMessage) (redacted json.RawMessage, removed []string, err error)

// ask asks for a deny to be lifted. It returns what takes its place, and whether that
// lets the step be taken.
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

// redacted is the emission as whoever resolves approvals may see it.
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

// settle judges the answer to a Request, in the order that the specification fixes.
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
			return denied(reasonResolverFailed, "the resolution has a verdict, and decides nothing"), false
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

// within calls f in a goroutine of its own and waits for it, at most for limit; 0 is as
// long as ctx. A call that is late is left behind: what it returns goes nowhere.
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
		end := ending{err: errors.New("ended its goroutine")} // as runtime.Goexit does
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
