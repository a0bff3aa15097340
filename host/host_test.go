package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// moments has, for each kind of event, the agent's action at that event. It returns the effect
// of the action; "" is no effect.
var moments = map[grapnel.Kind]func(w *world) (did string, err error){
	grapnel.GatewayStart: func(w *world) (string, error) { w.host.Open(w.ctx); return "opened", nil },
	grapnel.GatewayStop:  func(w *world) (string, error) { return "closed", w.host.Close(w.ctx) },
	grapnel.SessionStart: func(w *world) (string, error) {
		ctx, s, context, err := w.host.Start(w.ctx, grapnel.Session{ID: "s2"}, "resume")
		if err != nil {
			return "", err
		}
		return fmt.Sprint("started ", host.SessionFromContext(ctx) == s, " ", s.Info().ID, context), nil
	},
	grapnel.SessionEnd: func(w *world) (string, error) { w.s.End(w.ctx, "exit"); return "ended", nil },
	grapnel.PromptBefore: func(w *world) (string, error) {
		return w.s.Prompt(w.ctx, "hello")
	},
	grapnel.AgentBefore: func(w *world) (string, error) {
		b, err := w.s.Begin(w.ctx, host.Beginning{Prompt: "hello", System: "be good", Model: "m1"})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, %s, %s, %q", b.System, b.Model, w.s.Info().Model, b.Context), nil
	},
	grapnel.AgentAfter: func(w *world) (string, error) {
		stop, err := w.s.Stop(w.ctx, "done", false)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("stop: %+v", stop), nil
	},
	grapnel.AgentFailed: func(w *world) (string, error) { w.s.Failed(w.ctx, errBroken); return "failed", nil },
	grapnel.ModelBefore: askModel,
	grapnel.ModelAfter:  askModel,
	grapnel.ToolsetBefore: func(w *world) (string, error) {
		names, mode, err := w.s.Choose(w.ctx, []string{"a", "b"}, "auto")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(names, mode), nil
	},
	grapnel.ToolBefore:       func(w *world) (string, error) { return callTool(w, "echo", nil) },
	grapnel.PermissionBefore: func(w *world) (string, error) { return callTool(w, "asks", nil) },
	grapnel.PermissionDenied: func(w *world) (string, error) {
		if err := w.engine.Add(blocks(grapnel.PermissionBefore, "not today")); err != nil {
			return "", err
		}
		_, err := callTool(w, "asks", nil)
		return host.Refused(err).Reason, nil
	},
	grapnel.ToolAfter:  func(w *world) (string, error) { return callTool(w, "echo", nil) },
	grapnel.ToolFailed: func(w *world) (string, error) { return callTool(w, "echo", errors.New("no such file")) },
	grapnel.ToolBatchAfter: func(w *world) (string, error) {
		added, err := w.s.ToolBatch(w.ctx, []host.Result{{Call: host.Call{Name: "echo"}}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint("next", added), nil
	},
	grapnel.TranscriptBefore: func(w *world) (string, error) {
		kept, err := w.s.Keep(w.ctx, json.RawMessage(`{"role":"user","content":"hi"}`))
		return string(kept), err
	},
	grapnel.ResponseBefore: func(w *world) (string, error) {
		answer, err := w.s.Respond(w.ctx, "the answer")
		if no := host.Refused(err); no != nil && answer != no.Text {
			return answer, fmt.Errorf("the answer is %q beside %w", answer, err)
		} else if no != nil {
			return "", err
		}
		return answer, err
	},
	grapnel.MessageReceived: func(w *world) (string, error) {
		return done("received", w.s.Received(w.ctx, grapnel.Message{Content: "hi"}))
	},
	grapnel.MessageBefore: send,
	grapnel.MessageSent:   send,
	grapnel.CompactBefore: compact,
	grapnel.CompactAfter:  compact,
	grapnel.SubagentStart: subagent,
	grapnel.SubagentAfter: subagent,
	grapnel.TaskBefore: func(w *world) (string, error) {
		return done("made", w.s.Task(w.ctx, grapnel.Task{Subject: "x"}))
	},
	grapnel.TaskAfter: func(w *world) (string, error) {
		return done("closed", w.s.TaskDone(w.ctx, grapnel.Task{Subject: "x"}))
	},
	grapnel.NotificationSent: func(w *world) (string, error) {
		w.s.Notify(w.ctx, grapnel.Notification{Message: "look"})
		return "notified", nil
	},
	grapnel.ConfigBefore: func(w *world) (string, error) {
		return done("configured", w.s.Configure(w.ctx, grapnel.Config{File: "settings.json"}))
	},
	grapnel.ElicitationBefore: func(w *world) (string, error) {
		answer, err := w.s.Elicit(w.ctx, grapnel.Elicitation{Message: "which?"}, func(context.Context) (json.RawMessage, error) {
			w.act()
			return json.RawMessage(`{"action":"accept"}`), nil
		})
		return string(answer), err
	},
}

func done(what string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return what, nil
}

func askModel(w *world) (string, error) {
	asked := "nobody"
	response, err := host.Model(w.ctx, "question", func(_ context.Context, q string) (string, error) {
		w.act()
		asked = q
		return "answer to " + q, nil
	})
	if err != nil && response != "" {
		return response, fmt.Errorf("a response is there beside %w", err)
	}
	return done(asked+": "+response, err)
}

// callTool calls a tool, and also returns a Refusal that does not end the turn as an error.
func callTool(w *world, name string, failure error) (string, error) {
	ran := ""
	r, err := host.Tool(w.ctx, host.Call{ID: "c1", Name: name, Input: json.RawMessage(`{"a":1}`)}, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
		w.act()
		ran = string(input)
		return text("output"), failure
	})
	if r.Refusal != nil && (ran != "" || !r.Failed || r.Text() != r.Refusal.Text || string(r.Call.Input) != `{"a":1}`) {
		return ran, fmt.Errorf("it was refused and ran, or has another result than that: %+v", r)
	}
	if err == nil && r.Refusal != nil {
		err = r.Refusal
	}
	did := fmt.Sprintf("ran %s: %s, failed %t, feedback %q, context %q", ran, r.Output, r.Failed, r.Feedback, r.Context)
	if r.Next != nil {
		did += fmt.Sprintf(", next %s %s", r.Next.Name, r.Next.Input)
	}
	return done(did, err)
}

func send(w *world) (string, error) {
	did := ""
	err := w.s.Send(w.ctx, host.Outgoing{Channel: "chat", Text: "hi", Attachments: []string{"a.png"}}, func(_ context.Context, m host.Outgoing) error {
		w.act()
		did = fmt.Sprintf("%+v", m)
		return nil
	})
	if want := "{Channel:chat Text: Attachments:[] Suppressed:true}"; host.Refused(err) != nil && did != want { // IC-30
		return did, fmt.Errorf("delivered %s, want %s, beside %w", did, want, err)
	}
	return done(did, err)
}

func compact(w *world) (string, error) {
	summary, err := w.s.Compact(w.ctx, "manual", "be brief", func(_ context.Context, instructions string) (string, error) {
		w.act()
		return "summary by " + instructions, nil
	})
	return done(summary, err)
}

func subagent(w *world) (string, error) {
	var prompts []string
	answer, err := host.Subagent(w.ctx, grapnel.Subagent{ID: "a1", Type: "explore"}, "look", func(_ context.Context, prompt string) (string, error) {
		w.act()
		if prompts = append(prompts, prompt); len(prompts) > 1 { // otherwise it would continue forever
			w.engine.Remove(func(*grapnel.Spec) bool { return true })
		}
		return "found", nil
	})
	return done(fmt.Sprintf("%s after %q", answer, prompts), err)
}

// listening starts its own short session and adds the hook after that, so that the start of the
// session is not an additional event. Calls of the tool asks need consent.
func listening(t *testing.T, approve host.Approver, spec grapnel.Spec) *world {
	t.Helper()
	w := newWorld(t, &host.Options{
		Tools:   []host.ToolInfo{{Name: "asks", Ask: true}},
		Approve: approve,
	})
	w.add(spec)
	return w
}

// groups are the events at which an agent treats verdicts the same way.
var groups = map[string][]grapnel.Kind{
	"action": {
		grapnel.PromptBefore, grapnel.ModelBefore, grapnel.ToolBatchAfter, grapnel.TranscriptBefore, grapnel.ResponseBefore, grapnel.MessageReceived, grapnel.MessageBefore,
		grapnel.TaskBefore, grapnel.TaskAfter, grapnel.ConfigBefore, grapnel.ElicitationBefore,
	},
	"open":       {grapnel.CompactBefore, grapnel.SubagentStart}, // an action that failures do not stop
	"tool":       {grapnel.ToolBefore},
	"permission": {grapnel.PermissionBefore},
	"stop":       {grapnel.AgentAfter, grapnel.SubagentAfter},
	"feedback":   {grapnel.ToolAfter, grapnel.ToolFailed},
	"response":   {grapnel.ModelAfter},
	"added":      {grapnel.SessionStart, grapnel.AgentBefore, grapnel.ToolsetBefore, grapnel.CompactAfter},
	"notice": {
		grapnel.GatewayStart, grapnel.GatewayStop, grapnel.SessionEnd, grapnel.AgentFailed, grapnel.PermissionDenied,
		grapnel.MessageSent, grapnel.NotificationSent,
	},
}

// verdicts lists the effect of a hook's answer in an agent, for each group of events:
//
//	asked    the person is asked
//	goes     everything continues as without hooks
//	differs  it has happened, and the model gets the reason
//	refused  it does not happen; failed: because a guard could not answer
//	ended    it does not happen, or has no effect, and the turn ends
//	told     the person gets a message
var verdicts = []struct {
	name   string
	person host.Approver
	spec   func(grapnel.Kind) grapnel.Spec
	reason string // in a Refusal, and in the effect differs
	want   map[string]string
}{
	{"none", person(true, "", nil), answering(grapnel.Outcome{}), "", map[string]string{"permission": "asked goes", "": "goes"}},
	{"allow", person(true, "", nil), answering(grapnel.Outcome{Decision: grapnel.Allow}), "", map[string]string{"": "goes"}},
	{"ask, yes", person(true, "", nil), answering(sure), "", map[string]string{
		"action": "asked goes", "open": "asked goes", "tool": "asked goes", "permission": "asked goes", "": "goes told",
	}},
	{"ask, no", person(false, "I would rather not", nil), answering(sure), "I would rather not", map[string]string{
		"action": "asked refused", "open": "asked refused", "tool": "asked refused", "permission": "asked refused", "": "goes told",
	}},
	{"ask, no without a word", person(false, "", nil), answering(sure), "did not agree", map[string]string{
		"action": "asked refused", "open": "asked refused", "tool": "asked refused", "permission": "asked refused", "": "goes told",
	}},
	{"ask, nobody there", nil, answering(sure), "the agent has no way to ask. sure?", map[string]string{
		"action": "refused", "open": "refused", "tool": "refused", "permission": "refused", "": "goes told",
	}},
	{"ask, nobody answers", person(true, "", errors.New("terminal closed")), answering(sure), "terminal closed", map[string]string{
		"action": "asked refused failed", "open": "asked refused failed", "tool": "asked refused failed", "permission": "asked refused failed", "": "goes told",
	}},
	{"block", person(true, "", nil), answering(grapnel.Outcome{Decision: grapnel.Block, Reason: "because"}), "because", map[string]string{
		"action": "refused", "open": "refused", "tool": "refused", "permission": "refused", "response": "refused",
		"stop": "differs", "feedback": "differs", "": "goes told",
	}},
	{"halt", person(true, "", nil), answering(grapnel.Outcome{Halt: "enough"}), "enough", map[string]string{"notice": "goes told", "": "ended"}},
	{"block and halt", person(true, "", nil), answering(grapnel.Outcome{Decision: grapnel.Block, Reason: "because", Halt: "enough"}), "enough", map[string]string{
		"notice": "goes told", "added": "ended told", "": "ended",
	}},
	{"ask and halt", person(true, "", nil), answering(grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?", Halt: "enough"}), "enough", map[string]string{
		"action": "ended", "open": "ended", "tool": "ended", "permission": "ended", "notice": "goes told", "": "ended told",
	}},
	{"fails open", person(true, "", nil), failing(grapnel.OnErrorOpen), "", map[string]string{"permission": "asked goes told", "": "goes told"}},
	{"fails closed", person(true, "", nil), failing(grapnel.OnErrorClosed), "broken", map[string]string{
		"action": "refused failed", "tool": "refused failed", "permission": "refused failed", "response": "refused failed", "feedback": "differs", "": "goes told",
	}},
	{"fails, ask", person(true, "", nil), failing(grapnel.OnErrorAsk), "broken", map[string]string{
		"action": "asked goes", "tool": "asked goes", "permission": "asked goes", "response": "refused failed", "feedback": "differs", "": "goes told",
	}},
	{"panics", person(true, "", nil), func(on grapnel.Kind) grapnel.Spec {
		s := hook("panics", on, grapnel.Guard(func(*grapnel.Event) string { panic("oops") }))
		s.OnError = grapnel.OnErrorClosed
		return s
	}, "oops", map[string]string{
		"action": "refused failed", "tool": "refused failed", "permission": "refused failed", "response": "refused failed", "feedback": "differs", "": "goes told",
	}},
}

var sure = grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}

func answering(out grapnel.Outcome) func(grapnel.Kind) grapnel.Spec {
	return func(on grapnel.Kind) grapnel.Spec { return returning("answers", on, out) }
}

func failing(counts grapnel.OnError) func(grapnel.Kind) grapnel.Spec {
	return func(on grapnel.Kind) grapnel.Spec { return fails(on, counts) }
}

// The effect of each decision at each event.
//
// Proves: IC-27, IC-28, IC-30, IC-31, MC-12, MC-13, GC-04, GC-09, FL-26, FL-33
func TestVerdicts(t *testing.T) {
	t.Parallel()
	tested := 0
	for group, kinds := range groups {
		for _, kind := range kinds {
			tested++
			moment := moments[kind]
			baseline, err := moment(listening(t, person(true, "", nil), returning("other", native, grapnel.Outcome{})))
			if err != nil || baseline == "" {
				t.Errorf("%s: %q, %v without hooks", kind, baseline, err)
			}
			for _, tt := range verdicts {
				t.Run(string(kind)+"/"+tt.name, func(t *testing.T) {
					t.Parallel()
					want, ok := tt.want[group]
					if !ok {
						want = tt.want[""]
					}
					w := listening(t, tt.person, tt.spec(kind))
					did, err := moment(w)
					if got := w.effect(did, err, kind, baseline, tt.reason); got != want {
						t.Errorf("the agent did %q, %v, told %q: that is %q, want %q", did, err, w.messages(), got, want)
					}
				})
			}
		}
	}
	if tested != len(grapnel.Contracts()) {
		t.Errorf("%d events tested, want the %d there are", tested, len(grapnel.Contracts()))
	}
}

// effect describes the agent's action with the words of verdicts.
func (w *world) effect(did string, err error, kind grapnel.Kind, baseline, reason string) string {
	w.t.Helper()
	var words []string
	for _, q := range w.asked {
		if at := q.Event.Kind; at != kind && (at != grapnel.PermissionBefore || kind != grapnel.ToolBefore) || q.Event.Session.ID != "s1" || q.Event.Agent.Name != "test" {
			w.t.Errorf("asked about %+v at %s", q.Event, kind)
		}
		words = append(words, "asked")
	}
	no := host.Refused(err)
	switch {
	case err != nil && no == nil:
		w.t.Errorf("error %v, which is no Refusal", err)
	case no == nil && did == baseline:
		words = append(words, "goes")
	case no == nil && strings.Contains(did, reason):
		words = append(words, "differs")
	case no == nil || did != "":
		words = append(words, "half done")
	case no.Halt:
		words = append(words, "ended")
	default:
		words = append(words, "refused")
	}
	if no != nil {
		if no.Failed {
			words = append(words, "failed")
		}
		if at := no.Kind; at != kind && (at != grapnel.PermissionBefore || kind != grapnel.ToolBefore) || !strings.Contains(no.Reason, reason) || !strings.Contains(no.Text, reason) {
			w.t.Errorf("refused by %+v, want %s because of %q", no, kind, reason)
		}
	}
	if len(w.messages()) > 0 {
		words = append(words, "told")
	}
	return strings.Join(words, " ")
}

const native = grapnel.Kind("native.test.Other")

// The fields that hooks may change at each event, and the effect in the agent.
//
// Proves: GC-05, GC-06, GC-08, FL-34
func TestChanges(t *testing.T) {
	t.Parallel()
	tests := map[grapnel.Kind]map[grapnel.Field]struct{ value, want string }{
		grapnel.PromptBefore:  {grapnel.FieldPrompt: {`"good bye"`, "good bye"}},
		grapnel.AgentBefore:   {grapnel.FieldSystem: {`"be bad"`, `be bad, m1, m1, []`}, grapnel.FieldModel: {`"m2"`, `be good, m2, m2, []`}},
		grapnel.AgentAfter:    {grapnel.FieldClear: {`true`, `stop: {ContinueWith: Context:[] Clear:true}`}},
		grapnel.ModelBefore:   {grapnel.FieldRequest: {`"other"`, `other: answer to other`}, grapnel.FieldResponse: {`"mine"`, "nobody: mine"}},
		grapnel.ModelAfter:    {grapnel.FieldResponse: {`"mine"`, "question: mine"}},
		grapnel.ToolsetBefore: {grapnel.FieldTools: {`["b","c"]`, "[b]auto"}, grapnel.FieldMode: {`"none"`, "[a b]none"}},
		grapnel.ToolBefore: {
			grapnel.FieldInput:  {`{"a":2}`, `ran {"a":2}: "output", failed false, feedback "", context []`},
			grapnel.FieldOutput: {`{"cached":true}`, `ran : {"cached":true}, failed false, feedback "", context []`},
		},
		grapnel.PermissionBefore: {grapnel.FieldInput: {`{"a":2}`, `ran {"a":2}: "output", failed false, feedback "", context []`}},
		grapnel.ToolAfter: {
			grapnel.FieldOutput: {`"***"`, `ran {"a":1}: "***", failed false, feedback "", context []`},
			grapnel.FieldNext:   {`{"name":"other","input":{"b":1}}`, `ran {"a":1}: "output", failed false, feedback "", context [], next other {"b":1}`},
		},
		grapnel.ToolFailed:        {grapnel.FieldOutput: {`"***"`, `ran {"a":1}: "***", failed true, feedback "", context []`}},
		grapnel.TranscriptBefore:  {grapnel.FieldMessage: {`{"role":"user","content":"***"}`, `{"role":"user","content":"***"}`}},
		grapnel.ResponseBefore:    {grapnel.FieldResponse: {`"another"`, "another"}},
		grapnel.MessageBefore:     {grapnel.FieldText: {`"***"`, "{Channel:chat Text:*** Attachments:[a.png] Suppressed:false}"}},
		grapnel.CompactAfter:      {grapnel.FieldSummary: {`"and more"`, "summary by be brief\nand more"}},
		grapnel.ElicitationBefore: {grapnel.FieldAnswer: {`{"action":"decline"}`, `{"action":"decline"}`}},
	}
	for _, c := range grapnel.Contracts() {
		for _, change := range c.Changes {
			tt, ok := tests[c.Kind][change.Field]
			if !ok {
				t.Errorf("%s of %s is not tested", change.Field, c.Kind)
				continue
			}
			yes := person(true, "", nil)
			w := listening(t, yes, sets(c.Kind, change.Field, tt.value))
			if did, err := moments[c.Kind](w); err != nil || did != tt.want || len(w.messages()) > 0 {
				t.Errorf("%s of %s: %q, %v, told %q, want %q", change.Field, c.Kind, did, err, w.messages(), tt.want)
			}
			// A value that is not JSON changes nothing, if the hook fails open.
			same, _ := moments[c.Kind](listening(t, yes, returning("other", native, grapnel.Outcome{})))
			broken := sets(c.Kind, change.Field, `{`)
			broken.OnError = grapnel.OnErrorOpen
			w = listening(t, yes, broken)
			if did, err := moments[c.Kind](w); err != nil || did != same || len(w.messages()) == 0 {
				t.Errorf("%s of %s is no JSON: %q, %v, told %q, want %q and that somebody is told", change.Field, c.Kind, did, err, w.messages(), same)
			}
			// A refused action is not changed either.
			if c.Blocks != grapnel.BlockingAction {
				continue
			}
			w = listening(t, yes, sets(c.Kind, change.Field, tt.value))
			w.add(blocks(c.Kind, "because"))
			if did, err := moments[c.Kind](w); host.Refused(err) == nil || did != "" {
				t.Errorf("%s of %s, blocked: %q, %v, want a Refusal", change.Field, c.Kind, did, err)
			}
		}
	}
}

// The events at which hooks may add context, and the place of that context.
//
// Proves: GC-02, GC-07
func TestContext(t *testing.T) {
	t.Parallel()
	tests := map[grapnel.Kind]string{
		grapnel.SessionStart:   "started true s2[mind the gap]",
		grapnel.PromptBefore:   "hello\n\nmind the gap",
		grapnel.AgentBefore:    `be good, m1, m1, ["mind the gap"]`,
		grapnel.AgentAfter:     "stop: {ContinueWith: Context:[mind the gap] Clear:false}",
		grapnel.ToolBefore:     `ran {"a":1}: "output", failed false, feedback "", context ["mind the gap"]`,
		grapnel.ToolAfter:      `ran {"a":1}: "output", failed false, feedback "", context ["mind the gap"]`,
		grapnel.ToolFailed:     `ran {"a":1}: "no such file", failed true, feedback "", context ["mind the gap"]`,
		grapnel.ToolBatchAfter: "next[mind the gap]",
		grapnel.CompactBefore:  "summary by be brief\n\nmind the gap",
		grapnel.SubagentStart:  `found after ["look\n\nmind the gap"]`,
		grapnel.SubagentAfter:  `found after ["look"]`, // its work is done
	}
	for _, c := range grapnel.Contracts() {
		want, ok := tests[c.Kind]
		if ok != c.Context {
			t.Errorf("%s: context %t, and a test for it %t", c.Kind, c.Context, ok)
		}
		w := listening(t, person(true, "", nil), returning("context", c.Kind, grapnel.Outcome{Context: []string{"mind the gap"}}))
		did, err := moments[c.Kind](w)
		if err != nil || ok && did != want || ok == (len(w.messages()) > 0) {
			t.Errorf("%s: %q, %v, told %q, want %q", c.Kind, did, err, w.messages(), want)
		}
	}
}

// The data in events: the agent, the session, and the facts that a policy needs.
func TestEvents(t *testing.T) {
	t.Parallel()
	for kind, moment := range moments {
		w := newWorld(t, &host.Options{
			Tools:   []host.ToolInfo{{Name: "asks", Ask: true}, {Name: "echo", Class: grapnel.ClassRead}},
			Approve: person(true, "", nil),
		})
		w.watch(kind)
		before := time.Now()
		if _, err := moment(w); err != nil && kind != grapnel.PermissionDenied {
			t.Errorf("%s: %v", kind, err)
		}
		if len(w.events) != 1 {
			t.Errorf("%s was fired %d times, want once", kind, len(w.events))
			continue
		}
		ev := w.events[0]
		if ev.Kind != kind || ev.Agent.Version != "1" || ev.Time.Before(before) || ev.Time.After(time.Now()) {
			t.Errorf("%s: event %+v", kind, ev)
		}
		id, outside := ev.Session.ID, kind == grapnel.GatewayStart || kind == grapnel.GatewayStop
		if want := map[bool]string{true: "", false: "s1"}[outside]; id != want && (kind != grapnel.SessionStart || id != "s2") {
			t.Errorf("%s: session %q, want %q", kind, id, want)
		}
		if raw, err := json.Marshal(ev); err != nil {
			t.Errorf("%s: %v for %s", kind, err, raw)
		}
	}
}

// A person agrees to the changed action, and nothing else happens.
//
// Proves: IC-27, GC-04
func TestAskedAboutTheChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &host.Options{Approve: person(true, "", nil)}, sets(grapnel.PromptBefore, grapnel.FieldPrompt, `"rm -rf build"`), returning("asks", grapnel.PromptBefore, sure))
	prompt, err := w.s.Prompt(w.ctx, "clean up")
	if err != nil || prompt != "rm -rf build" || len(w.asked) != 1 || w.asked[0].Event.Prompt.Text != prompt || w.asked[0].Reason != "sure?" {
		t.Errorf("Prompt = %q, %v, asked about %+v", prompt, err, w.asked)
	}
}

// In an event of the agent's own kind, Fire sets the session. The caller must apply the
// Verdict.
func TestFire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, hook("h", native, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: ev.Agent.Name + " " + ev.Session.ID, Message: "look"}, nil
	})))
	v := w.s.Fire(w.ctx, &grapnel.Event{Kind: native, Terms: &grapnel.Terms{Contract: &grapnel.Contract{Blocks: grapnel.BlockingAction}}})
	if v.Decision != grapnel.Block || v.Reason() != "test s1" || len(w.messages()) != 1 {
		t.Errorf("Fire = %+v, told %q", v, w.messages())
	}
}
