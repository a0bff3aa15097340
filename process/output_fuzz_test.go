package process

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// FuzzOutput: any output and any exit code give an answer or an error. Exit code 2 blocks in every
// dialect, and all texts of the answer are valid UTF-8.
func FuzzOutput(f *testing.F) {
	for _, stdout := range []string{"", "text\xff", `{"decision":"allow"}`, "\xef\xbb\xbf{\"decision\":\"block\"}", `{"set":{"tool.input":{}}}`, `{"hookSpecificOutput":{"hookEventName":"PreToolUse"}}`, "{", "é"} {
		for _, exit := range []int{0, 1, 2, -1, 127} {
			f.Add([]byte(stdout), []byte("said \xc3"), exit, uint16(9))
		}
	}
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, exit int, limit uint16) {
		out, err := head{limit: int(limit)}, head{limit: int(limit)}
		for _, part := range [][]byte{stdout[:len(stdout)/2], stdout[len(stdout)/2:]} {
			if n, err := out.Write(part); n != len(part) || err != nil {
				t.Fatalf("Write = %d, %v, want all %d: the program would meet a closed pipe", n, err, len(part))
			}
		}
		_, _ = err.Write(stderr)
		end := &Ending{Exit: exit, Stdout: Output{out.kept, out.cut}, Stderr: Output{err.kept, err.cut}}
		if exit == -1 {
			end.Signal = "killed"
		}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"ls"}`)}}
		for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
			if d.ReadOutcome == nil {
				continue
			}
			c := &Command{Line: "check"}
			out, err := c.read(d, ev, end, int(limit))
			if exit == 2 && out.Decision != grapnel.Block {
				t.Errorf("%s: exit code 2 with %q is %v, %v", d.Name, stdout, out.Decision, err)
			}
			if exit == -1 && err == nil {
				t.Errorf("%s: a signal is no error", d.Name)
			}
			if end.Stdout.Cut > 0 && out.Decision == grapnel.Allow {
				t.Errorf("%s: %q, cut at %d, allows", d.Name, stdout, limit)
			}
			texts := append([]string{out.Reason, out.Message, out.Halt}, out.Context...)
			if err != nil {
				texts = append(texts, err.Error())
			}
			for _, text := range texts {
				if !utf8.ValidString(text) {
					t.Errorf("%s: %q is no UTF-8", d.Name, text)
				}
			}
		}
	})
}

// FuzzVariables: no text of a model prevents the start of a program.
func FuzzVariables(f *testing.F) {
	f.Add("a\x00b", "-rf", "x=y", uint16(1))
	f.Add("ls", "\x00-rf", "s", uint16(1)) // found by this test: without the NUL it is an option
	f.Add("é", "\xff", strings.Repeat("ü", 100), uint16(5000))
	f.Fuzz(func(t *testing.T, command, path, session string, times uint16) {
		many := strings.Repeat(command, int(times))
		ev := &grapnel.Event{
			Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: session}, Session: grapnel.Session{ID: many, CWD: path, Root: many},
			Tool: &grapnel.Tool{Name: many, Commands: []string{many, path}, Paths: []grapnel.Path{{Path: path}}},
		}
		for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
			c := &Command{Name: session, Inherit: InheritMinimal, Env: []string{"X=" + path}, Vars: d.HookEnv}
			size := 0
			for _, v := range c.environ(ev, "/") {
				name, value, ok := strings.Cut(v, "=")
				if !ok || name == "" || strings.Contains(v, "\x00") {
					t.Errorf("%s: variable %q", d.Name, v)
				}
				if len(v) >= 128<<10 { // the limit of Linux for one variable
					t.Errorf("%s: %s has %d bytes", d.Name, name, len(value))
				}
				if name == "GRAPNEL_PATH" && strings.HasPrefix(value, "-") {
					t.Errorf("the path %q is an option", path)
				}
				size += len(v) + 1
			}
			if size > 1<<20 { // half of the limit for all variables
				t.Errorf("%s: the variables have %d bytes", d.Name, size)
			}
		}
	})
}
