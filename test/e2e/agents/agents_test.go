package agents

import "testing"

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		agent        *Agent
		stdout, want string
	}{
		"claude": {
			agent:  ClaudeCode,
			stdout: `{"type":"system","subtype":"init"}` + "\n" + `{"type":"result","subtype":"success","result":"all done"}` + "\n",
			want:   "all done",
		},
		"claude, nothing after the result counts": {
			agent:  ClaudeCode,
			stdout: `{"type":"result","result":"all done"}` + "\n" + `{"type":"system","result":"no"}` + "\nnoise\n",
			want:   "all done",
		},
		"claude, no result": {agent: ClaudeCode, stdout: "error\n"},
		"gemini":            {agent: GeminiCLI, stdout: "{\n \"session_id\": \"s\",\n \"response\": \"all done\"\n}\n", want: "all done"},
		"gemini, nothing":   {agent: GeminiCLI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.agent.answer(tc.stdout); got != tc.want {
				t.Errorf("answer(%q) = %q, want %q", tc.stdout, got, tc.want)
			}
		})
	}
}
