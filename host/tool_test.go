package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// command returns the first shell line of an event.
func command(ev *grapnel.Event) string {
	if ev.Tool == nil || len(ev.Tool.Commands) == 0 {
		return ""
	}
	return ev.Tool.Commands[0]
}

// about returns a hook that answers for one command only.
func about(name string, on grapnel.Kind, line string, out grapnel.Outcome) grapnel.Spec {
	return hook(name, on, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if command(ev) != line {
			return grapnel.Outcome{}, nil
		}
		return out, nil
	}))
}

func commandOf(line string) grapnel.Outcome {
	return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: text(line)}}
}

// The questions about a call, the input in each question, and the call that runs in the end.
//
// Proves: IC-28, GC-04, FL-32
func TestConsent(t *testing.T) {
	t.Parallel()
	const before, permission = grapnel.ToolBefore, grapnel.PermissionBefore
	allow := grapnel.Outcome{Decision: grapnel.Allow}
	allowAs := func(line string) grapnel.Outcome {
		out := commandOf(line)
		out.Decision = grapnel.Allow
		return out
	}
	asks := func(reason string) grapnel.Outcome {
		return grapnel.Outcome{Decision: grapnel.Ask, Reason: reason}
	}
	answer := grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldOutput: text("from the cache")}}
	tests := map[string]struct {
		ask   bool // ToolInfo.Ask
		specs []grapnel.Spec
		asked []string // command and reason
		ran   string
		out   string // the model's result if it did not run
		kinds []grapnel.Kind
	}{
		"nobody has an opinion":                  {ran: "ls"},
		"the agent asks":                         {ask: true, asked: []string{"ls: "}, ran: "ls"},
		"the agent asks, a hook allows":          {ask: true, specs: []grapnel.Spec{returning("h", before, allow)}, ran: "ls"},
		"the agent asks, permission allows":      {ask: true, specs: []grapnel.Spec{returning("h", permission, allow)}, ran: "ls"},
		"the agent asks, a hook answers":         {ask: true, specs: []grapnel.Spec{returning("h", before, answer)}, out: "from the cache"},
		"the agent asks about what hooks left":   {ask: true, specs: []grapnel.Spec{returning("h", before, commandOf("ls -l"))}, asked: []string{"ls -l: "}, ran: "ls -l"},
		"an allow is for another input":          {ask: true, specs: []grapnel.Spec{returning("a", before, allow), returning("b", before, commandOf("ls -l"))}, asked: []string{"ls -l: "}, ran: "ls -l"},
		"an allow beside a guard that failed":    {ask: true, specs: []grapnel.Spec{returning("a", before, allow), fails(before, grapnel.OnErrorOpen)}, asked: []string{"ls: "}, ran: "ls"},
		"a hook asks":                            {specs: []grapnel.Spec{returning("h", before, asks("why?"))}, asked: []string{"ls: why?"}, ran: "ls"},
		"a hook asks, permission allows":         {specs: []grapnel.Spec{returning("h", before, asks("why?")), returning("p", permission, allow)}, ran: "ls"},
		"both ask":                               {specs: []grapnel.Spec{returning("h", before, asks("why?")), returning("p", permission, asks("really?"))}, asked: []string{"ls: why?\nreally?"}, ran: "ls"},
		"a hook asks, another answers":           {specs: []grapnel.Spec{returning("h", before, asks("why?")), returning("a", before, answer)}, asked: []string{"ls: why?"}, out: "from the cache"},
		"permission changes":                     {ask: true, specs: []grapnel.Spec{about("p", permission, "ls", commandOf("ls -l"))}, asked: []string{"ls -l: "}, ran: "ls -l"},
		"permission changes and allows":          {ask: true, specs: []grapnel.Spec{about("p", permission, "ls", allowAs("ls -l"))}, ran: "ls -l"},
		"permission changes, a guard refuses":    {ask: true, specs: []grapnel.Spec{returning("p", permission, allowAs("rm")), about("g", before, "rm", grapnel.Outcome{Decision: grapnel.Block, Reason: "no rm"})}, out: "The call was blocked: no rm"},
		"permission changes, a guard asks":       {ask: true, specs: []grapnel.Spec{returning("p", permission, allowAs("rm")), about("g", before, "rm", asks("rm?"))}, asked: []string{"rm: rm?"}, ran: "rm"},
		"permission changes, a guard is broken":  {ask: true, specs: []grapnel.Spec{returning("p", permission, allowAs("rm")), hook("g", before, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) { return brokenAbout(ev, "rm") }))}, out: "The call was blocked, since a guard could not answer: hook \"g\" could not answer: broken"},
		"permission changes, a hook answers it":  {ask: true, specs: []grapnel.Spec{returning("p", permission, allowAs("ls -l")), about("g", before, "ls -l", answer)}, out: "from the cache"},
		"permission changes, a hook answered ls": {specs: []grapnel.Spec{returning("h", before, asks("")), about("g", before, "ls", answer), returning("p", permission, allowAs("ls -l"))}, asked: []string{"ls -l: "}, ran: "ls -l"},
		"permission changes it back": {
			specs: []grapnel.Spec{returning("h", before, asks("")), about("a", before, "ls", commandOf("ls -l")), about("p", permission, "ls -l", commandOf("ls"))},
			out:   "The call was blocked, since a guard could not answer: hooks of tool.before and permission.before changed the input in different ways",
		},
		"permission refuses": {ask: true, specs: []grapnel.Spec{blocks(permission, "never")}, out: "The call was blocked: never"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &host.Options{
				Tools:   []host.ToolInfo{{Name: "sh", Class: grapnel.ClassShell, Ask: tt.ask}},
				Approve: person(true, "", nil),
			}, tt.specs...)
			w.watch(grapnel.PermissionDenied)
			ran := ""
			r, err := w.s.Tool(w.ctx, host.Call{Name: "sh", Input: json.RawMessage(`{"command":"ls"}`)}, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
				ran = commandIn(input)
				return nil, nil
			})
			var asked []string
			for _, q := range w.asked {
				if q.Event.Cause != q.Reason || q.Event.Session.ID != "s1" {
					t.Errorf("question %+v about %+v", q, q.Event)
				}
				asked = append(asked, command(q.Event)+": "+q.Reason)
			}
			if err != nil || ran != tt.ran || !slices.Equal(asked, tt.asked) || tt.out != "" && r.Text() != tt.out {
				t.Errorf("ran %q, asked %q, result %q, %v, want %q, %q, %q", ran, asked, r.Text(), err, tt.ran, tt.asked, tt.out)
			}
			// A decision about consent fires an event.
			if denied := r.Refusal != nil; denied != slices.Contains(w.kinds(), grapnel.PermissionDenied) {
				t.Errorf("refused %t, and %v were fired", denied, w.kinds())
			}
		})
	}
}

func brokenAbout(ev *grapnel.Event, line string) (grapnel.Outcome, error) {
	if command(ev) == line {
		return grapnel.Outcome{}, errBroken
	}
	return grapnel.Outcome{}, nil
}

func commandIn(input json.RawMessage) string {
	var args struct{ Command string }
	_ = json.Unmarshal(input, &args)
	return args.Command
}

// Hooks can neither see nor change the secrets that a tool declares, at any event of a call. The
// user does not see them either. Members below the first level are not secrets.
//
// Proves: IC-29
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	tests := map[string]struct{ input, change, want, shown string }{
		"unchanged":              {`{"url":"x","token":"s3cr3t"}`, ``, `{"url":"x","token":"s3cr3t"}`, `{"url":"x","token":"[REDACTED]"}`},
		"other member changed":   {`{"url":"x","token":"s3cr3t"}`, `{"url":"y","token":"[REDACTED]"}`, `{"url":"y","token":"s3cr3t"}`, `{"url":"x","token":"[REDACTED]"}`},
		"changed":                {`{"token":"s3cr3t"}`, `{"token":"mine"}`, `{"token":"s3cr3t"}`, `{"token":"[REDACTED]"}`},
		"removed":                {`{"url":"x","token":"s3cr3t"}`, `{"url":"y"}`, `{"url":"y","token":"s3cr3t"}`, `{"url":"x","token":"[REDACTED]"}`},
		"added":                  {`{"url":"x"}`, `{"url":"y","token":"mine"}`, `{"url":"y"}`, `{"url":"x"}`},
		"added in other letters": {`{"token":"s3cr3t"}`, `{"token":"a","TOKEN":"mine"}`, `{"token":"s3cr3t"}`, `{"token":"[REDACTED]"}`},
		"in other letters":       {`{"TOKEN":"s3cr3t"}`, `{"Token":"a","TOKEN":"b","n":1}`, `{"TOKEN":"s3cr3t","n":1}`, `{"TOKEN":"[REDACTED]"}`},
		"an object":              {`{"token":{"a":"s3cr3t"}}`, ``, `{"token":{"a":"s3cr3t"}}`, `{"token":"[REDACTED]"}`},
		"below":                  {`{"nested":{"token":"plain"}}`, `{"nested":{"token":"mine"}}`, `{"nested":{"token":"mine"}}`, `{"nested":{"token":"plain"}}`},
		"escaped":                {`{"tok\u0065n":"s3cr3t"}`, `{"token":"mine"}`, `{"token":"s3cr3t"}`, `{"token":"[REDACTED]"}`},
		"another sign":           {`{"to\u212aen":"s3cr3t"}`, ``, `{"to\u212aen":"s3cr3t"}`, "{\"to\u212aen\":\"[REDACTED]\"}"}, // the Kelvin sign
		"not an object any more": {`{"token":"s3cr3t"}`, `["mine"]`, ``, `{"token":"[REDACTED]"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &host.Options{
				Tools:   []host.ToolInfo{{Name: "get", Class: grapnel.ClassFetch, Secrets: []string{"token"}, Ask: true}},
				Approve: person(true, "", nil),
			})
			w.watch()
			if tt.change != "" {
				w.add(sets(grapnel.ToolBefore, grapnel.FieldInput, tt.change))
			}
			got := ""
			for _, failure := range []error{nil, errBroken} { // tool.after and tool.failed
				r, err := w.s.Tool(w.ctx, host.Call{Name: "get", Input: json.RawMessage(tt.input)}, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
					got = string(input)
					return nil, failure
				})
				if err != nil || (r.Refusal != nil) != (tt.want == "") {
					t.Errorf("result %+v, %v", r, err)
				}
				if _, err := w.s.ToolBatch(w.ctx, []host.Result{r}); err != nil {
					t.Error(err)
				}
			}
			if got != tt.want {
				t.Errorf("the tool got %s, want %s", got, tt.want)
			}
			if shown := string(w.events[0].Tool.Input); shown != tt.shown {
				t.Errorf("hooks saw %s, want %s", shown, tt.shown)
			}
			w.add(blocks(grapnel.PermissionBefore, "no")) // and permission.denied
			if _, err := w.s.Tool(w.ctx, host.Call{Name: "get", Input: json.RawMessage(tt.input)}, echo); err != nil {
				t.Error(err)
			}
			for _, q := range w.asked {
				w.events = append(w.events, q.Event)
			}
			kinds := map[grapnel.Kind]bool{}
			for _, ev := range w.events {
				kinds[ev.Kind] = true
				if raw, err := json.Marshal(ev); err != nil || bytes.Contains(raw, []byte(secret)) {
					t.Errorf("%s shows the secret: %s, %v", ev.Kind, raw, err)
				}
			}
			if tt.want != "" && len(kinds) != 6 {
				t.Errorf("%v were fired, want all of a tool", kinds)
			}
		})
	}
}

// For any change of an input by a hook, the hook gets no secret, and the tool gets exactly the
// secrets that the model gave, in their order.
//
// Proves: IC-29
func FuzzSecrets(f *testing.F) {
	f.Add(`{"token":"s3cr3t","url":"x"}`, `{"url":"y"}`)
	f.Add(`{"TOKEN":"s3cr3t","token":1}`, `{"token":2,"Token":3,"tOKEN":4}`)
	f.Add(`{"token":{"token":"s3cr3t"}}`, `{"a":{"token":1}}`)
	f.Add(`{"token":"s3cr3t","token":"s3cr3t"} `, `[]`)
	f.Add(`["s3cr3t"]`, `{}`)
	f.Add(`{"to\u212aen":"s3cr3t"}`, `{"\u0000":1,"token":null}`)
	f.Fuzz(func(t *testing.T, input, change string) {
		if !utf8.ValidString(input) || !utf8.ValidString(change) {
			return // text that is not UTF-8 is not JSON, and is repaired on the way
		}
		secretsOf := func(raw string) (list []string) {
			d := json.NewDecoder(strings.NewReader(raw))
			if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
				return nil
			}
			for d.More() {
				name, err := d.Token()
				var value json.RawMessage
				if err != nil || d.Decode(&value) != nil {
					return nil
				}
				if s, _ := name.(string); strings.EqualFold(s, "token") {
					list = append(list, string(value))
				}
			}
			return list
		}
		saw := ""
		w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "get", Secrets: []string{"token"}}}},
			hook("h", grapnel.ToolBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				saw = string(ev.Tool.Input)
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(change)}}, nil
			})))
		got, ran := "", false
		_, err := w.s.Tool(w.ctx, host.Call{Name: "get", Input: json.RawMessage(input)}, func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
			got, ran = string(in), true
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range secretsOf(saw) {
			if shown != `"[REDACTED]"` {
				t.Errorf("of %q hooks saw %s", input, saw)
			}
		}
		if was, now := secretsOf(input), secretsOf(got); ran && !slices.Equal(was, now) {
			t.Errorf("of %q, changed to %q, the tool got the secrets %q of %s, want %q", input, change, now, got, was)
		}
		if ran && !json.Valid([]byte(got)) {
			t.Errorf("of %q, changed to %q, the tool got %q, which is no JSON", input, change, got)
		}
	})
}

// The model's text for a tool's output, with and without hooks.
func TestToolResults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		input  string
		output string
		err    error
		want   string // the output
		failed bool
		ran    string // empty = it did not run
	}{
		"text":                    {`{}`, `"done"`, nil, `"done"`, false, `{}`},
		"object":                  {`{}`, `{"a":1.0}`, nil, `{"a":1.0}`, false, `{}`},
		"nothing":                 {`{}`, ``, nil, `null`, false, `{}`},
		"no JSON counts as text":  {`{}`, `<b>done`, nil, `"<b>done"`, false, `{}`},
		"an error":                {`{}`, `"half"`, errors.New("no such file"), `"no such file"`, true, `{}`},
		"an error of its own":     {`{}`, ``, fmt.Errorf("failed: %w", &host.ToolError{Output: json.RawMessage(`{"code":2}`)}), `{"code":2}`, true, `{}`},
		"an error that is text":   {`{}`, ``, &host.ToolError{Output: json.RawMessage(`oops`)}, `"oops"`, true, `{}`},
		"no input":                {``, `1`, nil, `1`, false, `{}`},
		"null as input":           {`null`, `1`, nil, `1`, false, `{}`},
		"input that is no JSON":   {`{"a":`, `1`, nil, `"The call was blocked, since a guard could not answer: the input is not a JSON object, so hooks cannot judge it"`, true, ``},
		"input with a tail":       {`{"a":1} {"a":2}`, `1`, nil, `"The call was blocked, since a guard could not answer: the input is not a JSON object, so hooks cannot judge it"`, true, ``},
		"input that is no object": {`"{}"`, `1`, nil, `"The call was blocked, since a guard could not answer: the input is not a JSON object, so hooks cannot judge it"`, true, ``},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listens := newWorld(t, nil)
			listens.watch()
			for where, w := range map[string]*world{"hooks": listens, "no hooks": newWorld(t, nil)} {
				ran := ""
				r, err := w.s.Tool(w.ctx, host.Call{ID: "c", Name: "x", Input: json.RawMessage(tt.input)}, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
					ran = string(input)
					return json.RawMessage(tt.output), tt.err
				})
				if tt.ran == "" && where == "no hooks" { // without hooks the tool runs as always
					continue
				}
				if err != nil || string(r.Output) != tt.want || r.Failed != tt.failed || ran != tt.ran || (r.Refusal == nil) != (tt.ran != "") {
					t.Errorf("%s: ran %q, result %+v, %v, want %s, failed %t", where, ran, r, err, tt.want, tt.failed)
				}
			}
			if n := len(listens.events); tt.ran != "" && n != 2 {
				t.Errorf("%v were fired", listens.kinds())
			}
		})
	}
}

// A nil Session, a Host without hooks and one with a nil engine permit everything.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	var none *grapnel.Engine
	hosts := map[string]*host.Host{"nil": host.New(nil, nil), "nil engine": host.New(none, nil)}
	for name, h := range hosts {
		h.Open(t.Context())
		ctx, s, added, err := h.Start(t.Context(), grapnel.Session{ID: "s"}, "startup")
		if err != nil || added != nil || host.SessionFromContext(ctx) != s {
			t.Errorf("%s: Start = %v, %v, %q", name, s, err, added)
		}
		w := &world{t: t, host: h, ctx: ctx, s: s}
		everything(w)
		s.End(ctx, "exit")
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
	}
	everything(&world{t: t, host: hosts["nil"], ctx: host.ContextWithSession(t.Context(), nil)})
}

func everything(w *world) {
	want := map[grapnel.Kind]string{
		grapnel.ToolBefore: `ran {"a":1}: "output", failed false, feedback "", context []`, grapnel.ModelBefore: "question: answer to question",
		grapnel.SubagentStart: `found after ["look"]`, grapnel.PromptBefore: "hello", grapnel.ElicitationBefore: `{"action":"accept"}`,
	}
	w.engine, _ = grapnel.New(nil, nil) // a moment adds hooks to it
	for kind, moment := range moments {
		if kind == grapnel.PermissionDenied || kind == grapnel.GatewayStop {
			continue
		}
		if did, err := moment(w); err != nil || did == "" || want[kind] != "" && did != want[kind] {
			w.t.Errorf("%s: %q, %v, want %q", kind, did, err, want[kind])
		}
	}
	if w.s.Info().Model != map[bool]string{true: "m1"}[w.s != nil] {
		w.t.Errorf("Info = %+v", w.s.Info())
	}
	if v := w.s.Fire(w.ctx, &grapnel.Event{Kind: native}); v.Decision != grapnel.None || v.Event == nil {
		w.t.Errorf("Fire = %+v", v)
	}
}

// Without hooks, an agent that asks before a tool still asks.
func TestAskWithoutHooks(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		asked := 0
		h := host.New(nil, &host.Options{
			Tools: []host.ToolInfo{{Name: "x", Ask: true}},
			Approve: host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
				if asked++; q.Event.Session.ID != "s1" || q.Event.Tool.Name != "x" {
					t.Errorf("asked about %+v", q.Event)
				}
				return host.Consent{Yes: yes}, nil
			}),
		})
		ctx, _, _, err := h.Start(t.Context(), grapnel.Session{ID: "s1"}, "startup")
		if err != nil {
			t.Fatal(err)
		}
		r, err := host.Tool(ctx, host.Call{Name: "x"}, echo)
		if err != nil || asked != 1 || (r.Refusal == nil) != yes {
			t.Errorf("yes %t: asked %d times, %+v, %v", yes, asked, r, err)
		}
	}
}

// The facts of a call that a policy needs: its class, and the content of its input.
func TestToolEvents(t *testing.T) {
	t.Parallel()
	tools := []host.ToolInfo{
		{Name: "sh", Class: grapnel.ClassShell},
		{Name: "look", Class: grapnel.ClassRead},
		{Name: "put", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/where", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/what"}}},
		{Name: "hidden", Class: grapnel.ClassShell, Secrets: []string{"command"}},
	}
	tests := map[string]struct {
		call host.Call
		want grapnel.Tool
	}{
		"usual members": {
			host.Call{Name: "sh", Input: json.RawMessage(`{"command":"ls"}`)},
			grapnel.Tool{Class: grapnel.ClassShell, Commands: []string{"ls"}},
		},
		"read": {
			host.Call{Name: "look", Input: json.RawMessage(`{"path":"/etc/passwd"}`)},
			grapnel.Tool{Class: grapnel.ClassRead, Paths: []grapnel.Path{{Path: "/etc/passwd", Use: grapnel.UseRead}}},
		},
		"facts": {
			host.Call{Name: "put", Input: json.RawMessage(`{"where":"a.go","what":"x","command":"ls"}`)},
			grapnel.Tool{Class: grapnel.ClassWrite, Paths: []grapnel.Path{{Path: "a.go", Use: grapnel.UseWrite}}, Content: "x"},
		},
		"unknown": {
			host.Call{Name: "strange", Input: json.RawMessage(`{"url":"http://x","path":"y"}`)},
			grapnel.Tool{Class: grapnel.ClassOther, URLs: []string{"http://x"}, Paths: []grapnel.Path{{Path: "y", Use: grapnel.UseWrite}}},
		},
		"of a server": {
			host.Call{Name: "issues", MCP: &grapnel.MCP{Server: "hub", Tool: "issues"}},
			grapnel.Tool{Class: grapnel.ClassMCP, MCP: &grapnel.MCP{Server: "hub", Tool: "issues"}},
		},
		"secret": {
			host.Call{Name: "hidden", Input: json.RawMessage(`{"command":"ls"}`)},
			grapnel.Tool{Class: grapnel.ClassShell, Commands: []string{"[REDACTED]"}},
		},
	}
	for name, tt := range tests {
		w := newWorld(t, &host.Options{Tools: tools})
		w.watch()
		if _, err := w.s.Tool(w.ctx, tt.call, echo); err != nil {
			t.Fatal(err)
		}
		for _, ev := range w.events {
			got := *ev.Tool
			if got.Name != tt.call.Name {
				t.Errorf("%s: name %q", name, got.Name)
			}
			got.Name, got.Input, got.Output, got.Facts = "", nil, nil, nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) && got.MCP == nil || got.CanonicalName() != tt.want.CanonicalName() {
				t.Errorf("%s, %s: %+v, want %+v", name, ev.Kind, got, tt.want)
			}
		}
	}
}

// The replacement texts for a refused call, in all manners and in background jobs.
//
// Proves: IC-28, MC-13
func TestManners(t *testing.T) {
	t.Parallel()
	for _, m := range host.AllManners() {
		if found, ok := host.FindManners(m.Name); !ok || !reflect.DeepEqual(*found, m) {
			t.Errorf("FindManners(%q) = %v, %t", m.Name, found, ok)
		}
		for _, tt := range []struct {
			spec func(grapnel.Kind) grapnel.Spec
			text func(host.Words) string
			why  string
		}{
			{answering(grapnel.Outcome{Decision: grapnel.Block, Reason: "50 % off"}), func(w host.Words) string { return w.Refused }, "50 % off"},
			{failing(grapnel.OnErrorClosed), func(w host.Words) string { return w.Failed }, `hook "fails" could not answer: broken`},
		} {
			want := func(w host.Words) string { return strings.ReplaceAll(tt.text(w), "%s", tt.why) }
			spec := tt.spec(grapnel.ToolBefore)
			spec.On = append(spec.On, grapnel.PromptBefore, grapnel.ModelBefore)
			w := newWorld(t, &host.Options{Manners: &m}, spec)
			for job, words := range map[string]host.Words{"": m.Tool, "9f1c": m.Job} {
				w.s.Update(func(info *grapnel.Session) { info.Job = job })
				r, err := w.s.Tool(w.ctx, host.Call{Name: "x"}, echo)
				if err != nil || r.Text() != want(words) || r.Refusal.Text != r.Text() {
					t.Errorf("%s, job %q: %q, %v, want %q", m.Name, job, r.Text(), err, want(words))
				}
			}
			if _, err := w.s.Prompt(w.ctx, "hi"); host.Refused(err).Text != want(m.Prompt) {
				t.Errorf("%s: a prompt is answered with %q, want %q", m.Name, host.Refused(err).Text, want(m.Prompt))
			}
			if _, err := askModel(w); host.Refused(err).Text != want(m.Response) {
				t.Errorf("%s: in the place of an answer stands %q, want %q", m.Name, host.Refused(err).Text, want(m.Response))
			}
		}
	}
	if _, ok := host.FindManners("rude"); ok {
		t.Error("there are manners of that name")
	}
	var noTexts host.Manners // without a text, the reason itself is used
	w := newWorld(t, &host.Options{Manners: &noTexts}, blocks(grapnel.ToolBefore, "because"))
	if r, _ := w.s.Tool(w.ctx, host.Call{Name: "x"}, echo); r.Text() != "because" {
		t.Errorf("without words: %q, want the reason", r.Text())
	}
}

// The two halves have the same effect as the whole, for callers that cannot wrap.
func TestHalves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, sets(grapnel.ToolBefore, grapnel.FieldInput, `{"a":2}`), sets(grapnel.ToolAfter, grapnel.FieldOutput, `"***"`))
	r, done, err := w.s.BeforeTool(w.ctx, host.Call{ID: "c", Name: "x", Input: json.RawMessage(`{"a":1}`)})
	if done || err != nil || string(r.Call.Input) != `{"a":2}` {
		t.Fatalf("BeforeTool = %+v, %t, %v", r, done, err)
	}
	if r, err = w.s.AfterTool(w.ctx, r.Call, text("out"), nil); err != nil || r.Text() != "***" {
		t.Errorf("AfterTool = %+v, %v", r, err)
	}
	w = newWorld(t, nil, sets(grapnel.ToolBefore, grapnel.FieldOutput, `"cached"`), returning("h", grapnel.ToolAfter, grapnel.Outcome{Halt: "enough"}))
	w.watch(grapnel.ToolAfter)
	if r, done, err = w.s.BeforeTool(w.ctx, host.Call{Name: "x"}); !done || r.Text() != "cached" || len(w.events) != 1 || host.Refused(err) == nil || !host.Refused(err).Halt {
		t.Errorf("BeforeTool = %+v, %t, %v, want an answer, tool.after and its halt", r, done, err)
	}
}

// An invalid next call is not made, and the user gets a message.
func TestNextUnreadable(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`{}`, `"x"`, `{"input":{}}`, `{"name":1}`} {
		w := newWorld(t, nil, sets(grapnel.ToolAfter, grapnel.FieldNext, value))
		r, err := w.s.Tool(w.ctx, host.Call{Name: "x"}, echo)
		if err != nil || r.Next != nil || len(w.messages()) != 1 || !strings.Contains(w.messages()[0], "want {name, input}") {
			t.Errorf("%s: next %+v, %v, told %q", value, r.Next, err, w.messages())
		}
	}
}

// If hooks change an input to something other than an object, the tool does not run, because
// guards cannot read its members.
func TestInputStaysAnObject(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore} {
		for _, input := range []string{`["rm"]`, `"rm"`, `null`} {
			w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "sh", Ask: true}}, Approve: person(true, "", nil)}, sets(kind, grapnel.FieldInput, input))
			r, err := w.s.Tool(w.ctx, host.Call{Name: "sh", Input: json.RawMessage(`{}`)}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
				t.Errorf("%s: it ran with %s", kind, input)
				return nil, nil
			})
			if err != nil || r.Refusal == nil || !r.Refusal.Failed || !strings.Contains(r.Refusal.Reason, "not a JSON object") {
				t.Errorf("%s, %s: %+v, %v", kind, input, r.Refusal, err)
			}
		}
	}
}

// If the Approver panics, the answer is no.
func TestApproverPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &host.Options{
		Tools:   []host.ToolInfo{{Name: "sh", Ask: true}},
		Approve: host.ApproverFunc(func(context.Context, *host.Question) (host.Consent, error) { panic("no terminal") }),
	})
	r, err := w.s.Tool(w.ctx, host.Call{Name: "sh"}, echo)
	if err != nil || r.Refusal == nil || !r.Refusal.Failed || !strings.Contains(r.Refusal.Reason, "the approver failed: it panicked: no terminal") {
		t.Errorf("%+v, %v", r, err)
	}
}

// The host copies the information about tools, so later changes of the slice have no effect.
func TestToolsAreTheHosts(t *testing.T) {
	t.Parallel()
	tools := []host.ToolInfo{{Name: "sh", Ask: true}}
	w := newWorld(t, &host.Options{Tools: tools})
	tools[0].Ask = false
	if r, err := w.s.Tool(w.ctx, host.Call{Name: "sh"}, echo); err != nil || r.Refusal == nil {
		t.Errorf("it ran unasked: %+v, %v", r, err)
	}
}

// The server of a tool comes from its ToolInfo, also if a hook requests the call.
func TestToolOfAServer(t *testing.T) {
	t.Parallel()
	lab := &grapnel.MCP{Server: "lab", Tool: "echo"}
	guard := grapnel.Spec{Name: "guard", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"mcp__lab__echo"}, Hook: grapnel.Guard(func(*grapnel.Event) string { return "not the lab" })}
	w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "lab_echo", MCP: lab}}}, guard)
	for _, call := range []host.Call{{Name: "lab_echo"}, {Name: "another", MCP: lab}} {
		if r, err := w.s.Tool(w.ctx, call, echo); err != nil || r.Refusal == nil || r.Refusal.Reason != "not the lab" {
			t.Errorf("%s: %+v, %v", call.Name, r, err)
		}
	}
}

// A tool in Go reads a member in any letter case, and of two it may use either. Hooks see the member
// under the name that rules use, a change reaches the tool under the name that the model used, and
// an object with two such members is refused. Each input is tried with usual names and with Facts.
func TestLetterCase(t *testing.T) {
	t.Parallel()
	type shellArgs struct {
		Command string `json:"command"`
		Amount  int    `json:"amount"`
	}
	guard := grapnel.Spec{Name: "guard", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		switch input := string(ev.Tool.Input); {
		case slices.ContainsFunc(ev.Tool.Commands, func(c string) bool { return strings.HasPrefix(c, "rm") }), strings.Contains(input, `"amount":9`):
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		case slices.Contains(ev.Tool.Commands, "change"):
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"changed"`)}}, nil
		}
		return grapnel.Outcome{}, nil
	})}
	for name, facts := range map[string][]grapnel.Fact{"usual": nil, "facts": {{Field: grapnel.FieldCommand, At: "/command"}, {Field: grapnel.FieldCommand, At: "/steps/*/command"}}} {
		w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell, Facts: facts, Members: []string{"/amount"}}}}, guard)
		for input, want := range map[string]string{ // the input of the tool; "" = refused
			`{"command":"ls"}`:                         `{"command":"ls"}`,
			`{"COMMAND":"ls","Note":1}`:                `{"COMMAND":"ls","Note":1}`,
			`{"command":"rm x"}`:                       "",
			`{"Command":"rm x"}`:                       "",
			`{"\u0043ommand":"rm x"}`:                  "",
			"{\"co\u212a\":1,\"COMMAND\":\"rm x\"}":    "",
			`{"AMOUNT":9}`:                             "",
			`{"command":"ls","COMMAND":"rm x"}`:        "",
			`{"COMMAND":"ls","command":"ls"}`:          "",
			`{"command":"ls","command":null}`:          "",
			`{"command":"ls","a":[{"x":1,"X":2}]}`:     "",
			`{"command":"ls","note":1,"Note":2}`:       "",
			`{"command":"ls","k":1,"\u212a":2}`:        "",
			`{"command":"change"}`:                     `{"command":"changed"}`,
			`{"COMMAND":"change","amount":1}`:          `{"COMMAND":"changed","amount":1}`,
			`{"a":{"Command":"x"},"command":"change"}`: `{"a":{"Command":"x"},"command":"changed"}`,
		} {
			got := ""
			r, err := host.Tool(w.ctx, host.Call{ID: "1", Name: "shell", Input: json.RawMessage(input)}, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
				got = string(input)
				var args shellArgs
				return nil, json.Unmarshal(input, &args)
			})
			if err != nil || got != want || (want == "") != (r.Refusal != nil) {
				t.Errorf("%s: %s ran as %s, %v, %v; want %s", name, input, got, r.Refusal, err, want)
			}
		}
	}
}

// Hooks of tool.after read the call that the agent reports, which can differ from the one that hooks
// of tool.before read.
func TestAgentChangesTheCall(t *testing.T) {
	t.Parallel()
	var seen []string
	see := grapnel.Spec{Name: "see", On: []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter}, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		seen = append(seen, fmt.Sprint(ev.Tool.Name, ev.Tool.Commands, string(ev.Tool.Input), string(ev.Tool.Output)))
		return grapnel.Outcome{}, nil
	})}
	ctx := benchSession(t, see)
	s := host.SessionFromContext(ctx)
	for _, change := range []func(c *host.Call){
		func(*host.Call) {},
		func(c *host.Call) { c.Input = json.RawMessage(`{"command":"pwd"}`) },
		func(c *host.Call) { c.Input = nil },
		func(c *host.Call) { c.Name = "other" },
	} {
		r, done, err := s.BeforeTool(ctx, host.Call{Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)})
		if done || err != nil {
			t.Fatalf("done %v, %v", done, err)
		}
		change(&r.Call)
		if _, err := s.AfterTool(ctx, r.Call, json.RawMessage(`"ok"`), nil); err != nil {
			t.Fatal(err)
		}
	}
	const before = `shell[ls]{"command":"ls"}`
	want := []string{
		before, `shell[ls]{"command":"ls"}"ok"`,
		before, `shell[pwd]{"command":"pwd"}"ok"`,
		before, `shell[]"ok"`,
		before, `other[ls]{"command":"ls"}"ok"`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("hooks saw:\n%s\nwant:\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}
