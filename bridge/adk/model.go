package adk

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// beforeModel fires the events of the ended tool calls and of the request.
func (b *bridge) beforeModel(ctx agent.Context, request *model.LLMRequest) (*model.LLMResponse, error) {
	r := b.of(ctx)
	w := r.at(ctx)
	if no := r.ended(); no != nil {
		return &model.LLMResponse{Content: words(no)}, nil
	}
	if err := ctx.Err(); err != nil { // check this without hooks too, like [host.Model]
		return nil, err
	}
	refused := func(err error) (*model.LLMResponse, error) {
		no := host.Refused(err)
		if no == nil {
			return nil, err
		}
		r.end(err)
		return &model.LLMResponse{Content: words(no)}, nil
	}

	r.mu.Lock()
	results := w.results
	w.results = nil
	r.mu.Unlock()
	if len(results) > 0 {
		added, err := w.session.ToolBatch(ctx, results)
		if err != nil {
			return refused(err)
		}
		w.context = append(w.context, added...)
	}
	guardStreams(request)
	w.instruct(request)
	w.session.Update(func(info *grapnel.Session) { info.Model = request.Model })
	if err := w.choose(ctx, request); err != nil {
		return refused(err)
	}
	if !w.session.Listens(grapnel.ModelBefore) {
		return nil, nil
	}
	raw, err := host.JSON(request)
	if err != nil {
		return nil, fmt.Errorf("grapnel: cannot encode the request for hooks: %w", err)
	}
	asked, answer, err := w.session.BeforeModel(ctx, raw)
	if err != nil {
		return refused(err)
	}
	if string(asked) != string(raw) {
		if err := change(request, asked); err != nil {
			return nil, err
		}
	}
	if answer == nil {
		return nil, nil
	}
	response, err := decode(answer)
	if err != nil {
		return nil, err
	}
	return w.judge(ctx, r, response)
}

// instruct adds the hooks' model name, system prompt and context to a request.
func (w *working) instruct(request *model.LLMRequest) {
	if w.model != "" {
		request.Model = w.model
	}
	if w.system != "" || len(w.context) > 0 {
		if request.Config == nil {
			request.Config = &genai.GenerateContentConfig{}
		}
		system, _ := textOf(request.Config.SystemInstruction)
		if w.system != "" {
			system = w.system
		}
		request.Config.SystemInstruction = genai.NewContentFromText(host.Below(system, w.context), genai.RoleUser)
	}
	if len(w.replacements) == 0 {
		return
	}
	var contents []*genai.Content
	for _, c := range request.Contents {
		if replacement, ok := w.replacements[thoughtOf(c)]; ok {
			contents = append(contents, replacement...)
			continue
		}
		contents = append(contents, c)
	}
	request.Contents = contents
}

// thoughtOf returns the text of a content that has only thoughts, or "".
func thoughtOf(c *genai.Content) string {
	var b strings.Builder
	if c != nil {
		for _, p := range c.Parts {
			if p == nil || !p.Thought {
				return ""
			}
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// again makes ADK call the model again, with replacement in place of its response. It returns a
// response that has only a thought, because ADK then continues the loop.
func (w *working) again(response *model.LLMResponse, thought string, replacement ...*genai.Content) *model.LLMResponse {
	thought = fmt.Sprintf("%s [%d]", thought, len(w.replacements)+1) // a unique text
	w.replacements[thought] = replacement
	other := *response
	other.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: thought, Thought: true}}}
	return &other
}

// modes maps ADK's function calling modes to the names that hooks see.
var modes = map[genai.FunctionCallingConfigMode]string{
	genai.FunctionCallingConfigModeAuto: "auto", genai.FunctionCallingConfigModeAny: "any", genai.FunctionCallingConfigModeNone: "none",
}

// choose asks hooks which tools the model may choose from. Other tools are removed from the
// request, so the model cannot call them either.
func (w *working) choose(ctx agent.Context, request *model.LLMRequest) error {
	if request.Config == nil || len(request.Tools) == 0 || !w.session.Listens(grapnel.ToolsetBefore) {
		return nil
	}
	var names []string
	for name := range request.Tools {
		names = append(names, name)
	}
	slices.Sort(names)
	mode := "auto"
	if c := request.Config.ToolConfig; c != nil && c.FunctionCallingConfig != nil && modes[c.FunctionCallingConfig.Mode] != "" {
		mode = modes[c.FunctionCallingConfig.Mode]
	}
	allowed, other, err := w.session.Choose(ctx, names, mode)
	if err != nil {
		return err
	}
	if other == "none" {
		allowed = nil
	}
	if len(allowed) < len(names) {
		keep(request, allowed)
	}
	if other == mode {
		return nil
	}
	for word, name := range modes {
		if name == other {
			config := genai.ToolConfig{}
			if request.Config.ToolConfig != nil {
				config = *request.Config.ToolConfig
			}
			config.FunctionCallingConfig = &genai.FunctionCallingConfig{Mode: word}
			request.Config.ToolConfig = &config
		}
	}
	return nil
}

// keep removes all other tools from a request.
func keep(request *model.LLMRequest, allowed []string) {
	for name := range request.Tools {
		if !slices.Contains(allowed, name) {
			delete(request.Tools, name)
		}
	}
	var tools []*genai.Tool
	for _, t := range request.Config.Tools {
		if len(t.FunctionDeclarations) == 0 {
			tools = append(tools, t)
			continue
		}
		other := *t
		other.FunctionDeclarations = slices.DeleteFunc(slices.Clone(t.FunctionDeclarations), func(f *genai.FunctionDeclaration) bool {
			return !slices.Contains(allowed, f.Name)
		})
		if len(other.FunctionDeclarations) > 0 {
			tools = append(tools, &other)
		}
	}
	request.Config.Tools = tools
}

// change applies the hooks' changes to a request.
func change(request *model.LLMRequest, asked json.RawMessage) error {
	now := model.LLMRequest{}
	if err := json.Unmarshal(asked, &now); err != nil {
		return fmt.Errorf("grapnel: cannot decode the request that hooks changed: %w", err)
	}
	if was := request.Config; was != nil && was.HTTPOptions != nil && now.Config != nil && now.Config.HTTPOptions != nil {
		now.Config.HTTPOptions.ExtrasRequestProvider = was.HTTPOptions.ExtrasRequestProvider // JSON does not include it
	}
	now.Tools = request.Tools
	*request = now
	return nil
}

// decode reads a response from a hook: a response in ADK's JSON, or a string.
func decode(raw json.RawMessage) (*model.LLMResponse, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return &model.LLMResponse{Content: genai.NewContentFromText(text, genai.RoleModel)}, nil
	}
	response := &model.LLMResponse{}
	if err := json.Unmarshal(raw, response); err != nil {
		return nil, fmt.Errorf("grapnel: cannot decode the response that hooks changed: %w", err)
	}
	if response.Content != nil && slices.Contains(response.Content.Parts, nil) { // ADK would panic
		return nil, errors.New("grapnel: cannot decode the response that hooks changed: a part is null")
	}
	return response, nil
}

// afterModel judges a response, or a piece of a stream.
func (b *bridge) afterModel(ctx agent.Context, response *model.LLMResponse, failure error) (*model.LLMResponse, error) {
	if failure != nil || response == nil || response.Content == nil {
		return nil, nil //nolint:nilerr // ADK continues with the failure
	}
	r := b.of(ctx)
	w := r.at(ctx)
	r.mu.Lock()
	r.failure = nil // a fallback has answered instead of the model
	r.mu.Unlock()
	if response.Partial {
		return w.piece(ctx, response)
	}
	judged, err := w.judge(ctx, r, response)
	if err != nil || judged == response {
		return nil, err
	}
	return judged, nil
}

// piece judges a piece of a stream, or holds it back until the whole response has been judged.
func (w *working) piece(ctx agent.Context, response *model.LLMResponse) (*model.LLMResponse, error) {
	nothing := &model.LLMResponse{Partial: true} // ADK does not show a response without content
	decided := w.session.Decides(grapnel.ModelAfter)
	switch {
	case !w.session.Incremental() && (decided || w.session.Decides(grapnel.ResponseBefore)):
		return nothing, nil
	case !decided:
		return nil, nil // hooks that only observe get the whole response
	}
	judged, err := w.ask(ctx, response)
	switch {
	case host.Refused(err) != nil:
		return nothing, nil //nolint:nilerr // the whole response will be refused too, with the reason
	case err != nil || judged == response:
		return nil, err
	default:
		judged.Partial = true
		return judged, nil
	}
}

// ask fires model.after for a response, and returns the changed response.
func (w *working) ask(ctx agent.Context, response *model.LLMResponse) (*model.LLMResponse, error) {
	if !w.session.Listens(grapnel.ModelAfter) {
		return response, nil
	}
	raw, err := host.JSON(response)
	if err != nil {
		return nil, fmt.Errorf("grapnel: cannot encode the response for hooks: %w", err)
	}
	judged, err := w.session.AfterModel(ctx, nil, raw)
	if err != nil || string(judged) == string(raw) {
		return response, err
	}
	return decode(judged)
}

// judge judges a whole response. If the agent would end with it, it also asks whether the agent
// may stop.
func (w *working) judge(ctx agent.Context, r *run, response *model.LLMResponse) (*model.LLMResponse, error) {
	judged, err := w.ask(ctx, response)
	if no := host.Refused(err); no != nil {
		if !no.Halt && w.withheld < grapnel.MaxStops {
			w.withheld++
			return w.again(response, "An answer was withheld.", genai.NewContentFromText(no.Text, genai.RoleUser)), nil
		}
		r.end(err)
		return &model.LLMResponse{Content: words(no)}, nil
	}
	if err != nil {
		return nil, err
	}
	w.withheld = 0
	text, ok := textOf(judged.Content)
	if !ok || slices.ContainsFunc(judged.Content.Parts, func(p *genai.Part) bool { return p != nil && p.FunctionCall != nil }) {
		return judged, nil
	}
	w.last = text
	r.mu.Lock()
	r.last = text
	r.mu.Unlock()
	stop, err := w.stop(ctx)
	if no := host.Refused(err); no != nil {
		r.end(err)
		return judged, nil //nolint:nilerr // the answer was given, and is the last one
	}
	if stop.ContinueWith == "" {
		w.stopped = true
		return judged, nil
	}
	w.active = true
	return w.again(judged, text, judged.Content, genai.NewContentFromText(host.Below(stop.ContinueWith, stop.Context), genai.RoleUser)), nil
}

// modelError stores the model's error. The end of the run reports it, unless a later response
// replaces it.
func (b *bridge) modelError(ctx agent.Context, _ *model.LLMRequest, failure error) (*model.LLMResponse, error) {
	r := b.of(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = failure
	return nil, nil
}
