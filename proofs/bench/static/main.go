// Static is a minimal hook written in Go: it reads an event from stdin, decodes it and prints an
// answer. It applies no policy. The benchmark compares grapnel-hook with it, so it must contain
// neither tricks nor flaws: one read, one decode into the fields that a rule would look at, one
// encode.
//
// Its modes are the floors of the benchmark. Each mode does only the unavoidable work of a path:
//
//	static append FILE    answer, then append the event to a file, as a Record
//	static create DIR     answer, then create a small file, as a new session
//	static load FILE      answer, then read a file, as a policy snapshot
//	static scan           read stdin, pass once over every byte, and answer without a decode
//	static ask SOCKET     send the event to a unix socket and print the reply, as to a daemon
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
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
	if err := run(os.Args[1:]); err != nil {
		_, _ = os.Stderr.WriteString("static: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run(args []string) error {
	mode, path := "", ""
	if len(args) > 0 {
		mode = args[0]
	}
	if len(args) > 1 {
		path = args[1]
	}
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var out []byte
	switch mode {
	case "ask":
		out, err = ask(path, data)
	case "scan":
		out = []byte(`{"hookSpecificOutput":{"permissionDecisionReason":"state ` + strconv.Itoa(int(scan(data))) + `"}}` + "\n")
	default:
		out, err = reply(data)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(out); err != nil {
		return err
	}
	switch mode {
	case "append":
		return write(path, os.O_APPEND, data)
	case "create":
		name := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 10)
		return write(filepath.Join(path, name), os.O_EXCL, []byte(path))
	case "load":
		_, err = os.ReadFile(path)
		return err
	case "", "ask", "scan":
		return nil
	}
	return errors.New("unknown mode " + mode)
}

func reply(data []byte) ([]byte, error) {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return nil, err
	}
	out, err := json.Marshal(answer{output{Event: ev.Event, Decision: "ask", Reason: ev.ToolName + " in " + ev.CWD}})
	return append(out, '\n'), err
}

// scan passes once over the data with a table of transitions, as a prefilter does that
// looks for many words at once. It returns the last state.
func scan(data []byte) byte {
	const states = 16
	var next [states][256]byte
	for s := range next {
		for c := range next[s] {
			next[s][c] = byte((s + c) % states)
		}
	}
	state := byte(0)
	for _, c := range data {
		state = next[state][c]
	}
	return state
}

func write(path string, flag int, data []byte) error {
	f, err := os.OpenFile(path, flag|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
