// Static is the least that a hook written in Go does: it reads an event from
// stdin, decodes it and prints an answer. Nothing judges the event. The benchmark
// measures grapnel-hook against it, so it must stay free of tricks and of flaws:
// one read, one decode into the fields that a rule would look at, one encode.
package main

import (
	"encoding/json"
	"io"
	"os"
)

type event struct {
	SessionID string `json:"session_id"`
	CWD       string `json:"cwd"`
	Event     string `json:"hook_event_name"`
	ToolName  string `json:"tool_name"`
	ToolUseID string `json:"tool_use_id"`
	ToolInput struct {
		Command  string `json:"command"`
		FilePath string `json:"file_path"`
		Content  string `json:"content"`
	} `json:"tool_input"`
}

type answer struct {
	Output output `json:"hookSpecificOutput"`
}

type output struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"`
}

func main() {
	data, err := io.ReadAll(os.Stdin)
	if err == nil {
		data, err = reply(data)
	}
	if err == nil {
		_, err = os.Stdout.Write(data)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("static: " + err.Error() + "\n") // fmt would add to what is measured
		os.Exit(1)
	}
}

func reply(data []byte) ([]byte, error) {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return nil, err
	}
	out, err := json.Marshal(answer{output{Event: ev.Event, Decision: "ask", Reason: ev.ToolName + " in " + ev.CWD}})
	return append(out, '\n'), err
}
