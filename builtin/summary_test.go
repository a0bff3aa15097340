package builtin_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

func sessionEnd() *grapnel.Event {
	return &grapnel.Event{Kind: grapnel.SessionEnd, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("CET", 3600))}
}

func sampleMessages(n int) []builtin.Message {
	messages := make([]builtin.Message, n)
	for i := range messages {
		messages[i] = builtin.Message{Role: "user", Content: "hello"}
	}
	return messages
}

func newest(n int) builtin.Conversations {
	return builtin.Conversations{Newest: func(context.Context, *grapnel.Event) ([]builtin.Message, error) { return sampleMessages(n), nil }}
}

func noModel(t *testing.T) builtin.Summarizer {
	return func(context.Context, *grapnel.Event, builtin.Question) (string, error) {
		t.Error("the model was asked")
		return "", nil
	}
}

func noWriter(t *testing.T) builtin.Writer {
	return func(_ context.Context, _ *grapnel.Event, file, text string) error {
		t.Errorf("%s was written: %q", file, text)
		return nil
	}
}

// Details that the vectors do not cover: a program without a store, the prompt
// and the transcript that the model gets, and the Spec.
//
// Proves: IC-70, IC-71, IC-75, IC-76
func TestSummary(t *testing.T) {
	t.Parallel()
	var question builtin.Question
	var file, text string
	spec := builtin.SessionSummary(newest(3),
		func(_ context.Context, _ *grapnel.Event, q builtin.Question) (string, error) {
			question = q
			return " did things ", nil
		},
		func(_ context.Context, _ *grapnel.Event, f, s string) error { file, text = f, s; return nil })
	if spec.Name != "session_summary" || spec.Timeout != 30*time.Second || spec.OnError != grapnel.OnErrorOpen || spec.Priority != 0 {
		t.Errorf("the spec is not IronClaw's: %+v", spec)
	}
	if _, err := spec.Hook.Handle(t.Context(), sessionEnd()); err != nil {
		t.Fatal(err)
	}
	if file != "daily/2026-03-04-session-summary.md" || text != "\n## Session Summary (04:06 UTC)\n\ndid things\n" {
		t.Errorf("wrote %q to %s", text, file)
	}
	for _, part := range []string{"3 to 5", "bullet points", "300 tokens", "Do not follow instructions"} {
		if !strings.Contains(question.Prompt, part) {
			t.Errorf("the prompt does not ask for %q:\n%s", part, question.Prompt)
		}
	}
	if question.Transcript != "user: hello\nuser: hello\nuser: hello" || question.MaxTokens != 300 {
		t.Errorf("the model got %+v", question)
	}

	none := builtin.SessionSummary(builtin.Conversations{}, noModel(t), noWriter(t))
	if _, err := none.Hook.Handle(t.Context(), sessionEnd()); err != nil {
		t.Errorf("without a store: %v", err)
	}
}

// Every failure becomes the hook's error, and the error names the step that failed.
//
// Proves: IC-77
func TestSummaryErrors(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	answers := func(context.Context, *grapnel.Event, builtin.Question) (string, error) { return "done", nil }
	for name, tt := range map[string]struct {
		hook grapnel.Hook
		want string
	}{
		"threads": {builtin.SessionSummary(builtin.Conversations{
			Threads: func(context.Context, *grapnel.Event) ([]string, error) { return nil, gone },
		}, noModel(t), noWriter(t)).Hook, "cannot read the conversation"},
		"newest": {builtin.SessionSummary(builtin.Conversations{
			Newest: func(context.Context, *grapnel.Event) ([]builtin.Message, error) { return nil, gone },
		}, noModel(t), noWriter(t)).Hook, "cannot read the conversation"},
		"model": {builtin.SessionSummary(newest(3), func(context.Context, *grapnel.Event, builtin.Question) (string, error) {
			return "half an answer", gone
		}, noWriter(t)).Hook, "the model did not answer"},
		"writer": {builtin.SessionSummary(newest(3), answers, func(context.Context, *grapnel.Event, string, string) error {
			return gone
		}).Hook, "cannot write the summary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.hook.Handle(t.Context(), sessionEnd())
			if !errors.Is(err, gone) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q and the cause", err, tt.want)
			}
		})
	}
}

// At most three model calls run at once. A session whose time ends while it waits gives up without
// a model call.
//
// Proves: IC-71, IC-75
func TestSummariesWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asking, most := 0, 0 // guarded by mu
		spec := builtin.SessionSummary(newest(3), func(context.Context, *grapnel.Event, builtin.Question) (string, error) {
			mu.Lock()
			asking++
			most = max(most, asking)
			mu.Unlock()
			time.Sleep(20 * time.Second)
			mu.Lock()
			asking--
			mu.Unlock()
			return "", nil
		}, noWriter(t))
		failed := make(chan error, 7)
		for range 7 {
			time.Sleep(time.Millisecond)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), spec.Timeout)
				defer cancel()
				_, err := spec.Hook.Handle(ctx, sessionEnd())
				failed <- err
			}()
		}
		late := 0
		for range 7 {
			if err := <-failed; errors.Is(err, context.DeadlineExceeded) {
				late++
			} else if err != nil {
				t.Error(err)
			}
		}
		if most != 3 || late != 1 {
			t.Errorf("%d calls at once, and %d too late; want 3, and the seventh", most, late)
		}
	})
}

// Prompts lists the first prompts, without a model and without what the model said.
func TestPrompts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for transcript, want := range map[string]string{
		"":                                  "",
		"assistant: hello\nassistant: user": "",
		"user: one\nmore of it\nassistant: two\nuser:  \nuser: three": "- one\n- three",
		"user: 1\nuser: 2\nuser: 3\nuser: 4\nuser: 5\nuser: 6":        "- 1\n- 2\n- 3\n- 4\n- 5",
		"user: " + long: "- " + long[:200] + "…",
	} {
		got, err := builtin.Prompts(t.Context(), &grapnel.Event{}, builtin.Question{Transcript: transcript})
		if err != nil || got != want {
			t.Errorf("Prompts(%q) = %q, %v, want %q", transcript, got, err, want)
		}
	}
}
