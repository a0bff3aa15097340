package policytest_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

func TestReceived(t *testing.T) {
	t.Parallel()
	line, dir := "git push", t.TempDir()
	ev := policytest.Event{Command: &line}
	for agent, tool := range map[*dialect.Dialect]string{dialect.ClaudeCode(): "Bash", dialect.GeminiCLI(): "run_shell_command"} {
		got, err := ev.Received(agent, dir)
		if err != nil {
			t.Fatal(err)
		}
		if is := got.Event; is.Agent.Name != agent.Name || is.Tool.Name != tool || is.Tool.Commands[0] != line || is.Session.CWD != dir || is.Can() == nil {
			t.Errorf("%s tells of %+v in %s, want %s to run %q in %s", agent.Name, is.Tool, is.Session.CWD, tool, line, dir)
		}
	}
	if _, err := (&policytest.Event{Tool: "nonsense"}).Received(dialect.ClaudeCode(), dir); err == nil {
		t.Error("a tool that nobody has was called")
	}
}
