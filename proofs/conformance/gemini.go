package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	geminifile "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
)

// gemini is Gemini CLI. Its events and the format of its hooks come from the dialect. Its cases
// were measured, so their expectations are complete.
var gemini = family{name: "gemini", events: geminiEvents(), maxOutput: 64 << 20} // the agent keeps the whole output

func geminiEvents() []eventName {
	var names []eventName
	for _, row := range dialect.GeminiCLI().Events {
		names = append(names, eventName{row.Kind, row.Native})
	}
	return names
}

// geminiEventOf returns the event of a case, found by either of its names.
func geminiEventOf(c *Case) (eventName, error) {
	for _, e := range gemini.events {
		if string(e.kind) == c.Event || c.Event == "" && e.native == c.Native {
			return e, nil
		}
	}
	return eventName{}, fmt.Errorf("gemini has no event %q (%s)", c.Event, c.Native)
}

// geminiDispatch fires one event through the hooks of a plan.
func geminiDispatch(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input map[string]any `json:"input"`
		Plan  plan           `json:"plan"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	e, err := geminiEventOf(c)
	if err != nil {
		return nil, err
	}
	b, err := d.Plan.bench(c.Dialect, e.kind)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	ev, err := geminiEvent(e, b.dir, d.Input)
	if err != nil {
		return nil, err
	}
	f := b.fire(ev, func() grapnel.Verdict { return b.engine.Fire(ctx, ev) })
	g := geminiView{firing: f, kind: ev.Kind, input: d.Input, results: make([]geminiResult, len(d.Plan.Hooks))}
	for i := range d.Plan.Hooks {
		g.results[i] = f.geminiResult(&d.Plan.Hooks[i])
	}
	return c.compare(g.view(d.Plan.Mode == "sequential")), nil
}

// geminiInputs are the fields of an event that a case may set.
var geminiInputs = []string{
	"tool_name", "tool_input", "tool_response", "prompt", "prompt_response", "stop_hook_active", "source", "reason", "trigger",
	"notification_type", "message", "details", "session_id", "mcp_context", "original_request_name",
}

// geminiEvent returns the event as the agent would report it, except that every verdict can be
// expressed. The cases test the hooks' decision and not its effect in the agent.
func geminiEvent(e eventName, dir string, input map[string]any) (*grapnel.Event, error) {
	payload := map[string]any{"session_id": "conformance", "transcript_path": "", "cwd": dir, "timestamp": "2026-01-01T00:00:00.000Z"}
	for name, value := range input {
		provider, isObject := value.(map[string]any)
		switch {
		case name == "provider_request" && isObject:
			payload["llm_request"] = llmRequest(provider)
		case name == "provider_response" && isObject:
			payload["llm_response"] = llmResponse(provider)
		case slices.Contains(geminiInputs, name):
			payload[name] = value
		default:
			return nil, fmt.Errorf("unknown input %q", name)
		}
	}
	payload["hook_event_name"] = e.native
	ev, err := dialect.GeminiCLI().Read(dialect.Input{Payload: rawjson.Must(payload)})
	if err != nil {
		return nil, err
	}
	ev.Kind, ev.Terms.Can = e.kind, nil
	return ev, nil
}

// geminiResultlt is the result of one hook.
type geminiResult struct {
	call    *call          // nil = not called
	success bool           // it exited with code 0
	format  string         // of its answer: json, text, or empty if there is no answer
	answer  map[string]any // members of the answer; for text, the members that the agent derives
}

// geminiResult reads a hook's answer from its raw output.
func (f *firing) geminiResult(def *hookDef) geminiResult {
	i := slices.IndexFunc(f.calls, func(c call) bool { return c.hook == def })
	if i < 0 {
		return geminiResult{}
	}
	result := geminiResult{call: &f.calls[i]}
	out := result.call.output
	if out == nil || errors.Is(result.call.err, grapnel.ErrTimeout) {
		return result
	}
	result.success = out.Exit == 0
	result.format, result.answer = geminiAnswer(out)
	return result
}

// geminiAnswer reads an answer the way the agent does.
func geminiAnswer(out *dialect.Output) (format string, answer map[string]any) {
	text := strings.TrimSpace(string(out.Stdout))
	if text == "" {
		text = strings.TrimSpace(string(out.Stderr))
	}
	if text == "" {
		return "", nil
	}
	value, err := tree([]byte(text))
	if inner, is := value.(string); is {
		err = strict([]byte(inner), &value)
	}
	if err == nil {
		switch value := value.(type) {
		case map[string]any:
			return "json", value
		case []any:
			return "json", nil
		default:
			return "", nil
		}
	}
	switch out.Exit {
	case 0, -1:
		return "text", map[string]any{"decision": "allow", "systemMessage": text}
	case 1:
		return "text", map[string]any{"decision": "allow", "systemMessage": "Warning: " + text}
	default:
		return "text", map[string]any{"decision": "deny", "reason": text}
	}
}

// text returns a string member of the answer, or "".
func (s *geminiResult) text(name string) string {
	text, _ := s.answer[name].(string)
	return text
}

func (s *geminiResult) stops() bool { return s.answer["continue"] == false }
func (s *geminiResult) denies() bool {
	return s.text("decision") == "deny" || s.text("decision") == "block"
}

// set reports whether the hook replaced a field.
func (s *geminiResult) set(field grapnel.Field) bool {
	return s.format != "" && (s.call.out.Set[field] != nil || s.call.out.Patch[field] != nil)
}

// geminiView makes a view of a firing. Decision and changes come from the Verdict, and the
// texts for people from the answers of the hooks.
type geminiView struct {
	*firing
	kind    grapnel.Kind
	input   map[string]any
	results []geminiResult // in plan order
}

// decides reports whether hooks can make a decision at the event.
func (g *geminiView) decides() bool {
	switch g.kind {
	case grapnel.SessionStart, grapnel.SessionEnd, grapnel.CompactBefore, grapnel.NotificationSent, grapnel.ToolsetBefore:
		return false
	default:
		return true
	}
}

// joins reports whether the texts of several hooks are joined. At other events a later text
// replaces an earlier one.
func (g *geminiView) joins() bool {
	return g.decides() && !g.ofModel() || g.kind == grapnel.SessionStart
}

func (g *geminiView) ofModel() bool {
	return g.kind == grapnel.ModelBefore || g.kind == grapnel.ModelAfter
}

func (g *geminiView) decision() string {
	answered := slices.ContainsFunc(g.results, func(s geminiResult) bool { return s.format != "" })
	switch v := &g.verdict; {
	case !g.decides():
		return "none"
	case v.Halt != "":
		return "stop"
	case v.Decision == grapnel.Block, g.kind == grapnel.ModelBefore && v.Event.Model.Response != nil:
		return "deny"
	case v.Decision == grapnel.Ask && g.kind == grapnel.ToolBefore:
		return "ask"
	case answered:
		return "allow"
	default:
		return "none"
	}
}

func (g *geminiView) view(inTurn bool) view {
	v := view{"decision": g.decision(), "hooks": g.hooks()}
	ends := v["decision"] == "stop" || v["decision"] == "deny"
	if g.decides() {
		v["continue"] = g.verdict.Halt == ""
	}
	g.texts(v, ends)
	g.changes(v, ends)
	if inTurn || g.ofModel() {
		v["hook_inputs"] = g.shown()
	}
	return v
}

func (g *geminiView) hooks() []any {
	hooks := []any{}
	for _, s := range g.results {
		hook := map[string]any{"success": s.success}
		if s.format != "" {
			hook["output_format"] = s.format
		}
		if s.call != nil && s.call.err != nil {
			hook["error"] = s.call.err.Error()
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// texts adds the messages for people and models.
func (g *geminiView) texts(v view, ends bool) {
	if g.kind == grapnel.ToolsetBefore {
		return
	}
	reason := g.merged("reason", g.results)
	stopReason := g.merged("stopReason", g.results)
	if ends {
		counting := g.standing()
		effective := []string{g.merged("stopReason", counting), g.merged("reason", counting), "No reason provided"}
		v["effective_reason"] = effective[slices.IndexFunc(effective, func(text string) bool { return text != "" })]
	}
	add := func(name, text string) {
		if text != "" {
			v[name] = text
		}
	}
	if !g.ofModel() {
		add("reason", reason)
		add("stop_reason", stopReason)
	}
	add("system_message", g.merged("systemMessage", g.results))
	switch g.kind {
	case grapnel.SessionStart, grapnel.PromptBefore, grapnel.ToolAfter:
		var context []string
		for _, s := range g.results {
			specific, _ := s.answer["hookSpecificOutput"].(map[string]any)
			if text, is := specific["additionalContext"].(string); is {
				context = append(context, text)
			}
		}
		add("additional_context", strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(strings.Join(context, "\n")))
	default: // the agent ignores it at other events
	}
	if g.suppressed() {
		v["suppress_output"] = true
	}
}

// standing returns the hooks whose reasons explain the end. At events of the model, Gemini CLI
// lets a later allow revoke a deny and its reason. By Grapnel's law the deny stays, and so do
// the texts up to it.
func (g *geminiView) standing() []geminiResult {
	if !g.ofModel() || g.verdict.Halt != "" {
		return g.results
	}
	last := -1
	for i := range g.results {
		if g.results[i].denies() {
			last = i
		}
	}
	takenBack := slices.ContainsFunc(g.results[last+1:], func(s geminiResult) bool { return s.answer["decision"] != nil })
	if last < 0 || !takenBack {
		return g.results
	}
	return g.results[:last+1]
}

// merged returns the text that several hooks give together.
func (g *geminiView) merged(name string, results []geminiResult) string {
	var texts []string
	for _, s := range results {
		_, given := s.answer[name]
		text := s.text(name)
		switch {
		case !g.joins() && given:
			texts = []string{text}
		case g.joins() && text != "" && (name != "stopReason" || s.stops()):
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

func (g *geminiView) suppressed() bool {
	suppressed := false
	for _, s := range g.results {
		if value, given := s.answer["suppressOutput"]; given {
			suppressed = value == true || suppressed && g.joins()
		}
	}
	return suppressed
}

// changes adds the changed values that replace the original ones.
func (g *geminiView) changes(v view, ends bool) {
	now := g.verdict.Event
	replaced := func(field grapnel.Field) bool {
		return slices.ContainsFunc(g.results, func(s geminiResult) bool { return s.set(field) })
	}
	switch g.kind {
	case grapnel.ToolBefore:
		if !ends {
			v["tool_input"], v["modified"] = now.Tool.Input, replaced(grapnel.FieldInput)
		}
	case grapnel.ToolAfter:
		if now.Tool.Next != nil {
			var next map[string]any
			if strict(now.Tool.Next, &next) == nil {
				v["tail_tool_call"] = map[string]any{"name": next["name"], "args": next["input"]}
			}
		}
	case grapnel.AgentAfter:
		v["clear_context"] = now.Stop.ClearMemory
	case grapnel.ModelBefore:
		g.request(v, ends)
	case grapnel.ModelAfter:
		v["provider_response"], v["modified"] = g.input["provider_response"], false
		if !ends && replaced(grapnel.FieldResponse) {
			v["provider_response"], v["modified"] = providerResponse(object(now.Model.Response)), true
		}
	case grapnel.ToolsetBefore:
		v["tool_config"], v["modified"] = nil, false
		if slices.ContainsFunc(g.results, func(s geminiResult) bool { return s.format != "" }) { // {} rewrites it too
			v["tool_config"], v["modified"] = toolConfig(now.Toolset), true
		}
	default: // nothing can be changed
	}
}

// request adds the request for the model, or the response that replaces its answer.
func (g *geminiView) request(v view, ends bool) {
	now := g.verdict.Event.Model
	if ends {
		answer := now.Response
		if answer == nil { // one hook answered, and another one denied
			answer = g.verdict.Native[dialect.GeminiCLI().Name+".llm_response"]
		}
		if answer != nil && v["decision"] == "deny" {
			v["synthetic_response"] = providerResponse(object(answer))
		}
		return
	}
	base := map[string]any{"config": map[string]any{}}
	given, _ := g.input["provider_request"].(map[string]any)
	maps.Copy(base, given)
	v["provider_request"] = base
	for _, s := range slices.Backward(g.results) { // the last one wins
		if !s.set(grapnel.FieldRequest) {
			continue
		}
		// Members that the hook does not name keep the provider's shape.
		final := object(now.Request)
		named := object(s.call.out.Patch[grapnel.FieldRequest])
		maps.DeleteFunc(final, func(name string, _ any) bool { _, is := named[name]; return !is })
		v["provider_request"] = providerRequest(base, final)
		return
	}
}

func toolConfig(t *grapnel.Toolset) map[string]any {
	names := slices.Compact(slices.Sorted(slices.Values(t.Allowed)))
	mode := strings.ToUpper(t.Mode)
	if mode == "" {
		mode = "AUTO"
	}
	if mode == "NONE" || names == nil {
		names = []string{}
	}
	return map[string]any{"mode": mode, "allowed_function_names": names}
}

// shown lists the event data that each hook received.
func (g *geminiView) shown() []any {
	list := []any{}
	for _, s := range g.results {
		var input map[string]any
		var does program
		if s.call != nil && json.Unmarshal(s.call.hook.Behaviour, &does) == nil && (does.ReadStdin == nil || *does.ReadStdin) {
			input = object(s.call.wire)
			for _, common := range []string{"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"} {
				delete(input, common)
			}
		}
		list = append(list, input)
	}
	return list
}

// object reads a JSON object. For any other value it returns an empty object.
func object(raw json.RawMessage) map[string]any {
	members := map[string]any{}
	if err := strict(raw, &members); err != nil {
		return map[string]any{}
	}
	return members
}

// geminiMatch checks whether a matcher selects a hook.
func geminiMatch(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Matcher json.RawMessage `json:"matcher"`
		Subject *string         `json:"subject"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	definition := map[string]any{"hooks": []any{map[string]any{"type": "command", "command": "true"}}}
	if d.Matcher != nil {
		definition["matcher"] = d.Matcher
	}
	planned, _, warnings, err := geminiPlanned(c, d.Subject, geminifile.Request{}, []any{definition})
	if err != nil {
		return nil, err
	}
	v := view{"matches": len(planned.Entries) > 0 && planned.Entries[0].Error == ""}
	if len(warnings) > 0 {
		v["warning"] = true
	}
	return c.compare(v), nil
}

// geminiPlan lists the hooks of a configuration that would run.
func geminiPlan(_ context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Subject *string `json:"subject"`
		Config  struct {
			Settings   any      `json:"settings"`
			Extensions []any    `json:"extensions"`
			Active     bool     `json:"extensions_active"`
			Trusted    bool     `json:"trusted_folder"`
			Disabled   []string `json:"disabled"`
		} `json:"config"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	if !d.Config.Active {
		d.Config.Extensions = nil
	}
	req := geminifile.Request{Disabled: d.Config.Disabled, Untrusted: !d.Config.Trusted}
	planned, specs, _, err := geminiPlanned(c, d.Subject, req, d.Config.Settings, d.Config.Extensions...)
	if err != nil {
		return nil, err
	}
	runs, mode := []any{}, "parallel"
	for _, entry := range planned.Entries {
		if entry.Error != "" { // without the entry it is unknown whether it would run
			continue
		}
		if entry.Sequential {
			mode = "sequential"
		}
		runs = append(runs, geminiRun(specs[entry.Source+"::"+entry.Hook]))
	}
	return c.compare(view{"runs": runs, "mode": mode}), nil
}

// geminiPlanned plans the event of a case with the hooks from the settings and from extensions.
func geminiPlanned(c *Case, subject *string, req geminifile.Request, settings any, extensions ...any) (grapnel.Plan, map[string]grapnel.Spec, []*policyfile.Error, error) {
	e, err := geminiEventOf(c)
	if err != nil {
		return grapnel.Plan{}, nil, nil, err
	}
	for i, definitions := range append([]any{settings}, extensions...) {
		file := geminifile.Hooks{Source: grapnel.Source{Name: fmt.Sprintf("%d", i)}, Extension: i > 0}
		if definitions != nil {
			file.Hooks = rawjson.Must(map[string]any{e.native: definitions})
		}
		req.Files = append(req.Files, file)
	}
	req.Command = func(cmd policyfile.Command) grapnel.Hook { return geminiCommand(cmd) }
	specs, warnings := geminifile.Load(req)
	preset, _ := grapnel.FindPreset(gemini.name)
	engine, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
	if err != nil {
		return grapnel.Plan{}, nil, nil, err
	}
	ev := &grapnel.Event{Kind: e.kind, Agent: grapnel.Agent{Name: dialect.GeminiCLI().Name}}
	if subject != nil {
		ev.Tool, ev.Cause = &grapnel.Tool{Name: *subject}, *subject
	}
	byName := make(map[string]grapnel.Spec, len(specs))
	for _, s := range specs {
		byName[s.FullName()] = s
	}
	return engine.Plan(ev), byName, warnings, nil
}

// geminiCommand is a hook that is planned but never run.
type geminiCommand policyfile.Command

// Handle is never called.
func (geminiCommand) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, errors.New("the hook is only planned and never runs")
}

// geminiRun returns a planned hook in the form of its configuration.
func geminiRun(s grapnel.Spec) map[string]any {
	run := map[string]any{}
	command := ""
	if args := s.Hook.(geminiCommand).Args; len(args) > 0 {
		command = args[len(args)-1]
		run["command"] = command
	}
	name, ofCommand := strings.CutSuffix(s.Key, ":"+command)
	if !ofCommand {
		name = strings.TrimSuffix(s.Key, ":")
	}
	if name != "" {
		run["name"] = name
	}
	if s.Timeout > 0 {
		run["timeout"] = s.Timeout / time.Millisecond
	}
	return run
}
