//go:build system && unix

package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/process"
)

// FL-26, FL-44, FL-45: a program of Flyto gets the variables of both model events from a Loop, and
// from an agent that calls a model API itself.
//
// Proves: FL-26, FL-45
func TestFlytoVariables(t *testing.T) {
	t.Parallel()
	var runs []grapnel.HookRun
	program := &process.Command{Line: "env", Dialect: dialect.Flyto(), Vars: dialect.Flyto().HookEnv, Executor: process.System}
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "env", On: []grapnel.Kind{grapnel.ModelBefore, grapnel.ModelAfter}, Hook: program},
	}, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		runs = append(runs, rec.Hooks...)
	})}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, _, _, err := host.New(engine, nil).Start(t.Context(), grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	loop := &host.Loop{Name: "m1", System: "be good", Provider: host.ProviderFunc(func(context.Context, *host.Request, func(string) error) (*host.Response, error) {
		content, _ := host.JSON("hi there")
		return &host.Response{Content: content, FinishReason: "end_turn", Usage: &host.Usage{PromptTokens: 11, CompletionTokens: 22}}, nil
	})}
	if _, err := loop.Run(ctx, host.Text("user", "hello")); err != nil {
		t.Fatal(err)
	}
	for _, response := range []string{
		`{"content":[{"type":"text","text":"hi there"}],"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":22}}`,
		`{"choices":[{"message":{"role":"assistant","content":"hi there"},"finish_reason":"end_turn"}],"usage":{"prompt_tokens":11,"completion_tokens":22}}`,
		`{"candidates":[{"content":{"parts":[{"text":"hi there"}]},"finishReason":"end_turn"}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":22}}`,
		`{"object":"response","status":"end_turn","output":[{"type":"message","content":[{"type":"output_text","text":"hi there"}]}],"usage":{"input_tokens":11,"output_tokens":22}}`,
	} {
		request := json.RawMessage(`{"model":"m1","messages":[{"role":"system"},{"role":"user"}]}`)
		if _, err := host.Model(ctx, request, func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(response), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(runs) != 10 {
		t.Fatalf("%d runs of the program, want 10: %+v", len(runs), runs)
	}
	for i, run := range runs {
		want := []string{"HOOK_TYPE=pre_sampling", "MODEL=m1", "TURN=1", "MESSAGE_COUNT=2"}
		if i%2 > 0 {
			want = []string{"HOOK_TYPE=post_sampling", "MODEL=m1", "TURN=1", "INPUT_TOKENS=11", "OUTPUT_TOKENS=22", "STOP_REASON=end_turn", "RESPONSE_PREVIEW=hi there"}
		}
		if run.Output == nil {
			t.Fatalf("run %d: no output: %+v", i, run)
		}
		for _, line := range want {
			if !strings.Contains("\n"+string(run.Output.Stdout), "\n"+line+"\n") {
				t.Errorf("run %d of the program has no variable %s:\n%s", i, line, run.Output.Stdout)
			}
		}
	}
}
