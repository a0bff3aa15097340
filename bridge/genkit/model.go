package genkit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/firebase/genkit/go/ai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// model wraps a model call. If hooks withhold the response, it calls the model again with the
// reason.
func (t *turn) model(ctx context.Context, params *ai.ModelParams, next ai.ModelNext) (*ai.ModelResponse, error) {
	request := params.Request
	for withheld := 0; ; withheld++ {
		response, err := t.ask(ctx, &ai.ModelParams{Request: request, Callback: params.Callback}, next)
		no := host.Refused(err)
		if no == nil {
			return response, err
		}
		if no.Kind != grapnel.ModelAfter || no.Halt || withheld == grapnel.MaxStops {
			t.end(err)
			return blocked(request, err)
		}
		again := *request
		again.Messages = append(slices.Clone(request.Messages), ai.NewUserTextMessage(no.Text))
		request = &again
	}
}

// ask calls the model once. The error is the model's, or a Refusal.
func (t *turn) ask(ctx context.Context, params *ai.ModelParams, next ai.ModelNext) (*ai.ModelResponse, error) {
	if err := ctx.Err(); err != nil { // check this without hooks too, like [host.Model]
		return nil, err
	}
	request, err := t.choose(ctx, params.Request)
	if err != nil {
		return nil, err
	}
	s := t.session
	if !s.Listens(grapnel.ModelBefore) && !s.Listens(grapnel.ModelAfter) && !t.holds() {
		return next(ctx, &ai.ModelParams{Request: request, Callback: params.Callback})
	}
	raw, err := host.JSON(request)
	if err != nil {
		return nil, fmt.Errorf("grapnel: cannot encode the request for hooks: %w", err)
	}
	asked, answer, err := s.BeforeModel(ctx, raw)
	if err != nil {
		return nil, err
	}
	if string(asked) != string(raw) {
		request = &ai.ModelRequest{} // keep nothing of the old request
		if err := json.Unmarshal(asked, request); err != nil {
			return nil, fmt.Errorf("grapnel: cannot decode the request that hooks changed: %w", err)
		}
	}
	callback := params.Callback
	held := callback != nil && !s.Incremental() && (s.Decides(grapnel.ModelAfter) || t.holds())
	switch {
	case held:
		callback = nil
	case callback != nil && s.Decides(grapnel.ModelAfter):
		callback = t.pieces(asked, callback)
	}
	var response *ai.ModelResponse
	if answer != nil {
		held = params.Callback != nil
		response, err = decode(answer)
	} else {
		response, err = next(ctx, &ai.ModelParams{Request: request, Callback: callback})
	}
	if err == nil {
		response, err = t.judge(ctx, asked, response)
	}
	if err != nil || !held || t.holds() || response.Message == nil {
		return response, err
	}
	return response, params.Callback(ctx, &ai.ModelResponseChunk{Content: response.Message.Content, Role: ai.RoleModel})
}

// holds reports whether the model's output is held back until the whole turn has been judged.
func (t *turn) holds() bool {
	return !t.sub && !t.session.Incremental() && t.session.Decides(grapnel.ResponseBefore)
}

// pieces judges each chunk as it arrives, as if it were a response. It drops refused chunks.
func (t *turn) pieces(asked json.RawMessage, callback ai.ModelStreamCallback) ai.ModelStreamCallback {
	return func(ctx context.Context, chunk *ai.ModelResponseChunk) error {
		judged, err := t.judge(ctx, asked, &ai.ModelResponse{Message: &ai.Message{Role: ai.RoleModel, Content: chunk.Content}})
		switch {
		case host.Refused(err) != nil:
			return nil //nolint:nilerr // the whole response will be refused too, with the reason
		case err != nil:
			return err
		}
		other := *chunk
		other.Content = judged.Message.Content
		return callback(ctx, &other)
	}
}

// judge fires model.after for a response, and returns the changed response.
func (t *turn) judge(ctx context.Context, asked json.RawMessage, response *ai.ModelResponse) (*ai.ModelResponse, error) {
	if !t.session.Listens(grapnel.ModelAfter) {
		return response, nil
	}
	shown := *response
	shown.Request = nil // hooks already have it
	raw, err := host.JSON(&shown)
	if err != nil {
		return nil, fmt.Errorf("grapnel: cannot encode the response for hooks: %w", err)
	}
	judged, err := t.session.AfterModel(ctx, asked, raw)
	if err != nil || string(judged) == string(raw) {
		return response, err
	}
	other, err := decode(judged)
	if err != nil {
		return nil, err
	}
	other.Request = response.Request
	return other, nil
}

// decode reads a response from a hook: a response in Genkit's JSON, or a string.
func decode(raw json.RawMessage) (*ai.ModelResponse, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return &ai.ModelResponse{Message: ai.NewModelTextMessage(text), FinishReason: ai.FinishReasonStop}, nil
	}
	response := &ai.ModelResponse{}
	if err := json.Unmarshal(raw, response); err != nil {
		return nil, fmt.Errorf("grapnel: cannot decode the response that hooks changed: %w", err)
	}
	if response.Message == nil {
		response.Message = ai.NewModelMessage()
	}
	if response.Message.Role == "" {
		response.Message.Role = ai.RoleModel
	}
	return response, nil
}

// modes maps Genkit's tool choices to the names that hooks see.
var modes = map[ai.ToolChoice]string{"": "auto", ai.ToolChoiceAuto: "auto", ai.ToolChoiceRequired: "any", ai.ToolChoiceNone: "none"}

// choose asks hooks which tools the model may choose from.
func (t *turn) choose(ctx context.Context, request *ai.ModelRequest) (*ai.ModelRequest, error) {
	if len(request.Tools) == 0 || !t.session.Listens(grapnel.ToolsetBefore) {
		return request, nil
	}
	var names []string
	for _, d := range request.Tools {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	mode := modes[request.ToolChoice]
	names, other, err := t.session.Choose(ctx, names, mode)
	if err != nil {
		return nil, err
	}
	chosen := *request
	if other == "none" {
		names = []string{}
	}
	if other != mode {
		chosen.ToolChoice = map[string]ai.ToolChoice{"auto": ai.ToolChoiceAuto, "any": ai.ToolChoiceRequired, "none": ai.ToolChoiceNone}[other]
	}
	chosen.Tools = slices.DeleteFunc(slices.Clone(request.Tools), func(d *ai.ToolDefinition) bool { return !slices.Contains(names, d.Name) })
	t.mu.Lock()
	t.offered = names
	t.mu.Unlock()
	return &chosen, nil
}
