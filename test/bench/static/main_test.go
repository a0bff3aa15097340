package main

import (
	"encoding/json"
	"testing"
)

func TestReply(t *testing.T) {
	t.Parallel()
	in := `{"session_id":"s","cwd":"/p","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a","content":"b"}}`
	out, err := reply([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	var got answer
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("reply(%s) = %s: %v", in, out, err)
	}
	if want := (answer{output{"PreToolUse", "ask", "Write in /p"}}); got != want {
		t.Errorf("reply(%s) = %+v, want %+v", in, got, want)
	}
	if out, err := reply([]byte(`{"tool_name":`)); err == nil {
		t.Errorf("reply to half an event = %s, want an error", out)
	}
}
