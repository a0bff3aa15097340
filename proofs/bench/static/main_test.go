package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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

func TestWrite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "records")
	for range 2 {
		if err := write(file, os.O_APPEND, []byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "line\nline\n" {
		t.Errorf("after two lines the file has %q, %v", data, err)
	}
	if err := write(file, os.O_EXCL, nil); err == nil {
		t.Error("a file was created twice")
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	if scan([]byte("ab")) == scan([]byte("ac")) {
		t.Error("the last state does not depend on the last byte")
	}
}
