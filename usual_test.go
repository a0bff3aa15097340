package grapnel_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// The commands of tools that no table knows are found by the usual names of members, in all usual
// forms.
func TestUsualCommands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server, tool, input string
		want                []string
	}{
		"command":          {"x", "y", `{"command":"rm -rf ~"}`, []string{"rm -rf ~"}},
		"cmd":              {"ssh", "exec", `{"cmd":"rm -rf ~"}`, []string{"rm -rf ~"}},
		"script":           {"term", "run", `{"script":"rm -rf ~"}`, []string{"rm -rf ~"}},
		"keys":             {"tmux", "send_keys", `{"keys":"rm -rf ~","pane":1}`, []string{"rm -rf ~"}},
		"keys in a list":   {"tmux", "sendKeys", `{"keys":["rm -rf ~","Enter"]}`, []string{"rm -rf ~", "Enter"}},
		"input":            {"x", "terminal-write", `{"input":"rm -rf ~\n"}`, []string{"rm -rf ~\n"}},
		"arguments":        {"term", "execute", `{"command":"rm","args":["-rf","/home/dev/a b"]}`, []string{"rm -rf '/home/dev/a b'"}},
		"arguments first":  {"term", "execute", `{"args":"-rf ~","command":"rm"}`, []string{"rm -rf ~"}},
		"no arguments":     {"term", "execute", `{"command":"ls","args":[]}`, []string{"ls"}},
		"words":            {"x", "spawn", `{"command":["sh","-c","rm -rf ~"]}`, []string{"sh -c 'rm -rf ~'"}},
		"a list":           {"x", "bash", `{"commands":["cd /","rm -rf ~"]}`, []string{"cd /", "rm -rf ~"}},
		"a list of steps":  {"x", "batch", `{"commands":[{"command":"rm -rf ~"}]}`, []string{"rm -rf ~"}},
		"cli_command":      {"aws", "call_aws", `{"cli_command":"aws s3 rb s3://b --force"}`, []string{"aws s3 rb s3://b --force"}},
		"a program":        {"k8s", "kubectl", `{"args":"delete ns production"}`, []string{"kubectl delete ns production"}},
		"a program's list": {"k8s", "kubectl", `{"args":["delete","ns","production"]}`, []string{"kubectl delete ns production"}},
		"notebook":         {"jupyter", "execute_code", `{"code":"x = 1\n!rm -rf ~\n"}`, []string{"rm -rf ~", "python3 -c 'x = 1\n'"}},
		"cell of bash":     {"ide", "executeCode", `{"code":"%%bash\nrm -rf ~"}`, []string{"\nrm -rf ~"}},
		"Python":           {"ide", "executeCode", `{"code":"import os; os.system('ls')"}`, []string{`python3 -c 'import os; os.system('\''ls'\'')'`}},
		"JavaScript":       {"x", "run_code", `{"code":"fetch(a)","language":"JavaScript"}`, []string{"node -e 'fetch(a)'"}},
		"a shell's code":   {"x", "run_code", `{"code":"rm -rf ~","language":"bash"}`, []string{"rm -rf ~"}},

		"cmdString":         {"term", "execute", `{"cmdString":"rm -rf ~"}`, []string{"rm -rf ~"}},
		"python_code":       {"pyodide", "evaluate", `{"python_code":"f()"}`, []string{"python3 -c 'f()'"}},
		"code_snippet":      {"x", "execute", `{"code_snippet":"f()","language":"js"}`, []string{"node -e 'f()'"}},
		"a process's input": {"x", "interact_with_process", `{"input":"rm -rf ~\n"}`, []string{"rm -rf ~\n"}},

		"a script of Python": {"py", "run_python_script", `{"script":"f()"}`, []string{"python3 -c 'f()'"}},

		"a processed input":      {"x", "process_image", `{"input":"rm -rf ~","code_snippet":"f()"}`, nil},
		"input of another tool":  {"x", "translate", `{"input":"rm -rf ~","script":"latin","keys":"a","code":"de"}`, nil},
		"a code of another tool": {"x", "check_country", `{"code":"DE"}`, nil},
		"arguments of nothing":   {"x", "call", `{"args":["a"]}`, nil},
		"no object":              {"x", "bash", `["rm"]`, nil},
		"broken JSON":            {"x", "bash", `{"command": ,"commands": ,"code": }`, nil},
		"no text":                {"x", "bash", `{"command":7,"args":{},"commands":{"a":1},"keys":null,"code":[]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := &grapnel.Tool{Name: "t", MCP: &grapnel.MCP{Server: c.server, Tool: c.tool}, Input: json.RawMessage(c.input)}
			tool.Complete()
			if !slices.Equal(tool.Commands, c.want) {
				t.Errorf("commands of %s %s = %q, want %q", c.tool, c.input, tool.Commands, c.want)
			}
		})
	}
}

// A rule about the text of files sees every file of a call.
func TestUsualContent(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"path":"a","content":"x"}`:                                                               "x",
		`{"files":[{"path":"a","content":"x"},{"path":"b","content":"y"}]}`:                        "x\ny",
		`{"path":"a","edits":[{"oldText":"n","newText":"x"},{"old_string":"n","new_string":"y"}]}`: "x\ny",
		`{"files":["a"],"edits":{"newText":"x"}}`:                                                  "",
	} {
		tool := &grapnel.Tool{Name: "t", MCP: &grapnel.MCP{Server: "files", Tool: "write"}, Input: json.RawMessage(input)}
		tool.Complete()
		if tool.Content != want {
			t.Errorf("content of %s = %q, want %q", input, tool.Content, want)
		}
	}
}
