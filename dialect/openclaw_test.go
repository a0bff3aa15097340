package dialect_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Agents with plugin functions as hooks have no exit codes, but Grapnel's plugins treat 2 as a
// block. Payloads without a readable event are blocked if a guard fails closed.
func TestPluginsBlind(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.OpenClaw(), dialect.OpenCode()} {
		for _, payload := range []string{"", "{}", `{"hook":7}`, `{"hook":"`} {
			reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), d, dialect.Input{Payload: []byte(payload)})
			if reply.Exit != 2 || len(reply.Stderr) == 0 || len(reply.Stdout) > 0 {
				t.Errorf("%s: %q is answered with %+v, want exit code 2 and a reason", d.Name, payload, reply)
			}
		}
	}
}

// All hooks of OpenClaw are in the table, the question for a user is not longer than the
// gateway's limit, and a budget ends before the agent's timeout.
func TestOpenClawTable(t *testing.T) {
	t.Parallel()
	if n := len(dialect.OpenClaw().Events); n != 42 {
		t.Errorf("%d events, want 42", n)
	}
	for _, row := range dialect.OpenClaw().Events {
		if row.Wait > 0 && (row.Budget == 0 || row.Budget >= row.Wait) {
			t.Errorf("%s: OpenClaw waits %v, and the hooks have %v", row.Native, row.Wait, row.Budget)
		}
	}
	ev, err := dialect.OpenClaw().Read(dialect.Input{Payload: []byte(`{"hook":"before_tool_call","event":{"toolName":"exec","params":{"command":"ls"}},"ctx":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	v := grapnel.Verdict{Decision: grapnel.Ask, Reasons: []grapnel.Reason{{Text: strings.Repeat("\u00e4", 1000)}}}
	if reply := string(dialect.OpenClaw().Write(ev, &v, "").Stdout); len(reply) > 600 || !strings.Contains(reply, "\u2026") || strings.Contains(reply, "\ufffd") {
		t.Errorf("a long question is written as %s", reply)
	}
}

// BenchmarkAnswerNested: a large call is split once, for any number of members that are read.
func BenchmarkAnswerNested(b *testing.B) {
	payload := `{"hook":"before_tool_call","event":{"toolName":"write","params":{"path":"a","content":"` + strings.Repeat("x", 1<<20) + `"}},"ctx":{"sessionId":"s"}}`
	benchmarkAnswer(b, guard(b, grapnel.OnErrorClosed), dialect.OpenClaw(), []byte(payload), "block")
}
