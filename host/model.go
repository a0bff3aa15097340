package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
)

// Model calls the model for the session in ctx: it fires model.before, calls next and fires
// model.after. Hooks may change the request, answer instead of the model, change the response, or
// refuse. They get request and response as JSON, and Model decodes their changes.
//
// The error comes from next or is a Refusal. After a Refusal of model.before, the model was not
// called. After a Refusal of model.after, the response must not be used, shown or stored; if the
// agent calls the model again, the Reason is for the model. If ctx is done before next is called,
// next does not run and the error is ctx.Err(). Without a session in ctx, it is ErrNoSession.
func Model[Q, R any](ctx context.Context, request Q, next func(ctx context.Context, request Q) (R, error)) (R, error) {
	return Stream(ctx, request, func(ctx context.Context, request Q, _ func(R) error) (R, error) { return next(ctx, request) }, nil)
}

// Stream is [Model] for streamed responses. next calls yield with the response received so far,
// any number of times, and returns the complete response. release gets the part that may be
// shown: the response so far, with the changes of hooks.
//
// Unless the host is Incremental, release is called once, with the complete response after it was
// judged. Otherwise, each piece is judged when it arrives. If yield returns an error, a hook
// refused: next must stop reading, and the unreleased part must not be used, shown or stored. If
// no hook can affect the verdict, pieces are released immediately.
func Stream[Q, R any](
	ctx context.Context, request Q,
	next func(ctx context.Context, request Q, yield func(soFar R) error) (R, error),
	release func(soFar R) error,
) (R, error) {
	if err := contextError(ctx); err != nil {
		var none R
		return none, err
	}
	s, err := requireSession(ctx)
	if err != nil {
		var none R
		return none, err
	}
	if release == nil {
		release = func(R) error { return nil }
	}
	if !s.Listens(grapnel.ModelBefore) && !s.Listens(grapnel.ModelAfter) {
		response, err := next(ctx, request, release)
		if err == nil {
			err = release(response)
		}
		return response, err
	}
	return stream(ctx, s, request, next, release)
}

func stream[Q, R any](
	ctx context.Context, s *Session, request Q,
	next func(ctx context.Context, request Q, yield func(soFar R) error) (R, error),
	release func(soFar R) error,
) (R, error) {
	var none R
	raw, err := JSON(request)
	if err != nil {
		return none, fmt.Errorf("cannot encode the request for hooks: %w", err)
	}
	asked, answer, err := s.BeforeModel(ctx, raw)
	if err != nil {
		return none, err
	}
	if string(asked) != string(raw) {
		var other Q // a zero value, so that no members of the old request remain
		if err := json.Unmarshal(asked, &other); err != nil {
			return none, fmt.Errorf("cannot decode the request that hooks changed: %w", err)
		}
		request = other
	}
	judge := func(response R) (R, error) {
		raw, err := JSON(response)
		if err != nil {
			return none, fmt.Errorf("cannot encode the response for hooks: %w", err)
		}
		judged, err := s.AfterModel(ctx, asked, raw)
		if err != nil || string(judged) == string(raw) {
			return response, err
		}
		return decode[R](judged)
	}
	let := func(response R) (R, error) {
		response, err := judge(response)
		if err == nil {
			err = release(response)
		}
		if err != nil {
			return none, err
		}
		return response, nil
	}
	if answer != nil {
		response, err := decode[R](answer)
		if err != nil {
			return none, err
		}
		return let(response)
	}
	var refused error
	judged := s.Decides(grapnel.ModelAfter)
	response, err := next(ctx, request, func(soFar R) error {
		switch {
		case refused != nil:
		case !judged:
			return release(soFar)
		case s.host.opts.Incremental:
			_, refused = let(soFar)
		}
		return refused
	})
	switch {
	case refused != nil: // regardless of the result of next
		return none, refused
	case err != nil:
		return none, err
	default:
		return let(response)
	}
}

func decode[R any](raw json.RawMessage) (response R, err error) {
	if err := json.Unmarshal(raw, &response); err != nil {
		return response, fmt.Errorf("cannot decode the response that hooks changed: %w", err)
	}
	return response, nil
}

// BeforeModel is the first half of [Model], for agents that cannot wrap the call. It returns the
// request to send, or the answer that replaces the model's response. The error is a Refusal or
// ctx.Err().
func (s *Session) BeforeModel(ctx context.Context, request json.RawMessage) (asked, answer json.RawMessage, err error) {
	if err := contextError(ctx); err != nil {
		return nil, nil, err
	}
	if !s.Listens(grapnel.ModelBefore) {
		return request, nil, nil
	}
	v, err := s.act(ctx, &grapnel.Event{Kind: grapnel.ModelBefore, Model: &grapnel.Model{Request: request}})
	if err != nil {
		return nil, nil, err
	}
	return changed(&v, grapnel.FieldRequest, request), v.Changes[grapnel.FieldResponse], nil
}

// AfterModel is the second half of [Model]. It returns the response to use. If it returns an
// error, a Refusal or ctx.Err(), the response must not be used, shown or stored.
func (s *Session) AfterModel(ctx context.Context, request, response json.RawMessage) (json.RawMessage, error) {
	if !s.Listens(grapnel.ModelAfter) {
		return response, nil
	}
	ev := &grapnel.Event{Kind: grapnel.ModelAfter, Model: &grapnel.Model{Request: request, Response: response}}
	if s.host.opts.Manners.unwaited(ev.Kind) {
		s.start(ctx, ev)
		return response, nil
	}
	v := s.Fire(ctx, ev)
	if err := mayRun(ctx, s.refusal(ev, &v)); err != nil {
		return nil, err
	}
	return changed(&v, grapnel.FieldResponse, response), nil
}
