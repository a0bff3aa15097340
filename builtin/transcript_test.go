package builtin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/builtin"
)

// Transcripts of the same short session by real agents. Of the lines that only the agents need, a
// few are kept as samples.
func TestReadRealTranscripts(t *testing.T) {
	t.Parallel()
	for file, tool := range map[string]string{"claude-code-2.1.329.jsonl": "Bash", "gemini-cli-0.61.0.jsonl": "run_shell_command"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := builtin.ReadTranscript(data)
			if err != nil {
				t.Fatal(err)
			}
			want := []builtin.Message{
				{Role: "user", Content: "Please write a note, then say so."},
				{Role: "assistant", Content: "[" + tool + ` {"command":"echo free > before.txt","description":"as planned"}]`},
				{Role: "assistant", Content: "The note is written."},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadTranscript(t *testing.T) {
	t.Parallel()
	const session = `{"sessionId":"s"}` + "\n"
	user := func(id, text string) string {
		return `{"id":"` + id + `","type":"user","content":"` + text + `"}` + "\n"
	}
	userMessages := func(texts ...string) (list []builtin.Message) {
		for _, text := range texts {
			list = append(list, builtin.Message{Role: "user", Content: text})
		}
		return list
	}
	for name, tt := range map[string]struct {
		file string
		want []builtin.Message
	}{
		"empty":                  {"", nil},
		"nothing was said":       {session, nil},
		"torn":                   {session + user("1", "a") + `{"id":"2","type":"user","con`, userMessages("a")},
		"damaged in the middle":  {session + user("1", "a") + "\x00\x00{\n[]\n\"x\"\n7\n" + user("2", "b"), userMessages("a", "b")},
		"one line":               {`{"sessionId":"s","type":"user","message":{"role":"user","content":"a"}}`, userMessages("a")},
		"replaced":               {session + user("1", "a") + user("2", "b") + user("1", "c"), userMessages("c", "b")},
		"set anew":               {session + user("1", "a") + `{"$set":{"messages":[{"id":"9","type":"user","content":"z"}]}}` + "\n" + user("1", "c"), userMessages("z", "c")},
		"set something else":     {session + user("1", "a") + `{"$set":{"lastUpdated":"x"}}`, userMessages("a")},
		"undone":                 {session + user("1", "a") + user("2", "b") + user("3", "c") + `{"$rewindTo":"2"}` + "\n" + user("3", "d"), userMessages("a", "d")},
		"all undone":             {session + user("1", "a") + user("2", "b") + `{"$rewindTo":"7"}` + "\n" + user("2", "e"), userMessages("e")},
		"what Gemini CLI begins": {session + `{"id":"1","type":"user","content":[{"text":"<session_context>\nfiles"}]}` + "\n" + user("2", "a"), userMessages("a")},
		"an older Gemini CLI": {
			"{\n  \"sessionId\": \"s\",\n  \"messages\": [\n    {\"id\": \"1\", \"type\": \"user\", \"content\": \"a\"},\n" +
				"    {\"id\": \"2\", \"type\": \"info\", \"content\": \"update\"},\n    {\"id\": \"3\", \"type\": \"user\", \"content\": [{\"text\": \"b\"}]}\n  ]\n}\n",
			userMessages("a", "b"),
		},
		"Claude Code's own words": {
			`{"sessionId":"s","type":"user","isMeta":true,"message":{"content":"caveat"}}` + "\n" +
				`{"sessionId":"s","type":"user","isSidechain":true,"message":{"content":"sub-agent"}}` + "\n" +
				`{"sessionId":"s","type":"user","message":{"content":[{"type":"tool_result","content":"output"},{"type":"text","text":" a "}]}}` + "\n" +
				`{"sessionId":"s","type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}` + "\n" +
				`{"sessionId":"s","type":"system","content":"x"}` + "\n",
			userMessages("a"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := builtin.ReadTranscript([]byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("messages of %q (-want +got):\n%s", tt.file, diff)
			}
		})
	}
}

// A file of another type is an error, and not an empty session.
func TestNoTranscript(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"hello", "{}", `{"role":"user"}`, "[]", `{"type":"response_item","payload":{}}` + "\n"} {
		if got, err := builtin.ReadTranscript([]byte(file)); !errors.Is(err, builtin.ErrTranscript) {
			t.Errorf("ReadTranscript(%q) = %v, %v", file, got, err)
		}
	}
}

// Only a part of a tool's input is shown, and a long message needs no more memory than the text
// that the model gets.
func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 100_000)
	got, err := builtin.ReadTranscript([]byte(
		`{"sessionId":"s","type":"user","message":{"content":"` + long + `"}}` + "\n" +
			`{"sessionId":"s","type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{"content":"` + long + `"}}]}}` + "\n"))
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if n := len(got[0].Content); n != 8000 {
		t.Errorf("the first has %d bytes, want 8000", n)
	}
	if n := len(got[1].Content); n > 250 || !strings.HasPrefix(got[1].Content, `[Write {"content":"ü`) {
		t.Errorf("the second has %d bytes: %s", n, got[1].Content)
	}
}

// FuzzReadTranscript: for any file, the reader ends and returns valid text.
func FuzzReadTranscript(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		"", "{}", `{"$rewindTo":"x"}`, `{"messages":[{"messages":[{}]}]}`, `{"$set":{"messages":[{"$set":{"messages":[]}}]}}`, `{"sessionId":"s","type":"gemini","toolCalls":[{}]}`,
		`{"sessionId":"s","type":"user","message":null,"content":7}`, `{"sessionId":"s","type":"gemini","toolCalls":[{"args":"` + "\x83" + `"}]}`, `{"id":"1","type":"user","content":[{"text":"\ud800"}]}` + "\n" + `{"$rewindTo":"1"}`, strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := builtin.ReadTranscript(data)
		if err != nil && len(messages) > 0 {
			t.Errorf("messages beside the error %v", err)
		}
		for _, m := range messages {
			if m.Role != "user" && m.Role != "assistant" || m.Content == "" || !utf8.ValidString(m.Content) || len(m.Content) > builtin.MaxTranscript {
				t.Errorf("message %.100q of %d bytes", m, len(m.Content))
			}
		}
	})
}
