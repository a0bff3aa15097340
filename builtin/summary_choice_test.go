package builtin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

// summarized returns the transcript that the model gets; empty = no summary is written.
func summarized(t *testing.T, from builtin.Conversations) string {
	t.Helper()
	var transcript string
	spec := builtin.SessionSummary(from,
		func(_ context.Context, _ *grapnel.Event, q builtin.Question) (string, error) {
			transcript = q.Transcript
			return "done", nil
		},
		func(context.Context, *grapnel.Event, string, string) error { return nil })
	if _, err := spec.Hook.Handle(t.Context(), sessionEnd()); err != nil {
		t.Fatal(err)
	}
	return transcript
}

// The summary is about the conversation of the session with the most messages, and about the first
// of several. Conversations that cannot be read are skipped. A session without conversations is
// about the newest conversation of its user. Fewer than three messages give no summary.
//
// Proves: IC-72, IC-73
func TestSummaryChoosesConversation(t *testing.T) {
	t.Parallel()
	messages := func(name string, n int) []builtin.Message {
		list := make([]builtin.Message, n)
		for i := range list {
			list[i] = builtin.Message{Role: "user", Content: name}
		}
		return list
	}
	sizes := map[string]int{"small": 3, "first": 5, "second": 5, "tiny": 2}
	newest := func(context.Context, *grapnel.Event) ([]builtin.Message, error) { return messages("newest", 4), nil }
	for name, tt := range map[string]struct {
		threads []string
		want    string // the conversation; empty = no summary
	}{
		"the largest":       {[]string{"small", "first"}, "first"},
		"first of equals":   {[]string{"small", "first", "second"}, "first"},
		"another order":     {[]string{"second", "first"}, "second"},
		"one is unreadable": {[]string{"gone", "small"}, "small"},
		"too few messages":  {[]string{"tiny"}, ""},
		"no conversations":  {nil, "newest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := summarized(t, builtin.Conversations{
				Threads: func(context.Context, *grapnel.Event) ([]string, error) { return tt.threads, nil },
				Messages: func(_ context.Context, _ *grapnel.Event, thread string) ([]builtin.Message, error) {
					if n, ok := sizes[thread]; ok {
						return messages(thread, n), nil
					}
					return nil, errors.New("no such file")
				},
				Newest: newest,
			})
			if first, _, _ := strings.Cut(got, "\n"); strings.TrimPrefix(first, "user: ") != tt.want {
				t.Errorf("the transcript begins with %q, want %q", first, tt.want)
			}
		})
	}
}

// The transcript has a line for each message and ends after at most 8,000 bytes, between two
// characters.
//
// Proves: IC-74
func TestSummaryTranscript(t *testing.T) {
	t.Parallel()
	list := []builtin.Message{{Role: "user", Content: "hello"}, {Role: "assistant", Content: "yes?"}, {Role: "user", Content: strings.Repeat("ö", 5000)}}
	got := summarized(t, builtin.Conversations{Newest: func(context.Context, *grapnel.Event) ([]builtin.Message, error) { return list, nil }})
	if want := "user: hello\nassistant: yes?\nuser: öö"; !strings.HasPrefix(got, want) {
		t.Errorf("the transcript begins with %.60q, want %q", got, want)
	}
	if n := len(got); n > 8000 || n < 7998 || !utf8.ValidString(got) {
		t.Errorf("the transcript has %d bytes, valid %v", n, utf8.ValidString(got))
	}
}
