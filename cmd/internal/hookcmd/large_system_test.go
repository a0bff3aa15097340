//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package hookcmd

import (
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
)

// A line that is not a question is ignored. An unreadable question gets the reply to an
// unreadable event.
func TestServedNoise(t *testing.T) {
	t.Parallel()
	s := startServe(t, "claude-code", "--root", rootWith(t, servedPolicy))
	for _, noise := range []string{
		"", "nonsense", "[]", "{}", `{"type":"weather","id":"1"}`, `{"type":"hello","grapnel":1}`, `{"type":"cancel","id":"nobody"}`,
		`{"type":"answer","id":"1","outcome":{}}`, strings.Repeat("[", 100_000), "\xff\x00",
	} {
		s.write("%s", noise)
	}
	for name, text := range map[string]string{
		"broken":   `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":}`,
		"none":     `{"type":"event","id":"%s"}`,
		"no JSON":  `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":"Bash"},,}`,
		"too long": `{"type":"event","id":"%s","event":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("x", maxLine) + `"}}}`,
	} {
		s.write(text, name)
		m := s.read()
		if m.ID != name || m.Reply == nil || !strings.Contains(m.Reply.Stdout+m.Reply.Stderr, "cannot read the event") && name != "no JSON" {
			t.Errorf("%s: %+v %+v, want a block of what cannot be read", name, m, m.Reply)
		}
		if name == "too long" && !strings.Contains(m.Reply.Stdout, strconv.Itoa(dialect.MaxPayload)) {
			t.Errorf("%s: %+v", name, m.Reply)
		}
	}
	if got := s.ask(removes); !strings.Contains(got.Stdout, "Use trash.") {
		t.Errorf("after all that: %+v, want a block", got)
	}
	s.end()
	if stderr := s.stderr.String(); !strings.Contains(stderr, "nonsense") {
		t.Errorf("stderr is %q, want to hear of the noise", stderr)
	}
}
