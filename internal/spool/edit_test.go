package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// TestEdit: in every mode, the edited Record is stored. If it cannot be edited, none of the
// event is stored.
func TestEdit(t *testing.T) {
	t.Parallel()
	pass := func(raw []byte, _ bool) ([]byte, error) {
		return bytes.ReplaceAll(raw, []byte("bob"), []byte("***")), nil
	}
	fail := func([]byte, bool) ([]byte, error) { return nil, errors.New("too deep") }
	gone := func(raw []byte, event bool) ([]byte, error) {
		if event {
			return nil, nil
		}
		return raw, nil
	}
	rec := &grapnel.Record{
		ID: "1", Agent: "a", Session: "s", Event: grapnel.ToolBefore, Decision: grapnel.Block, Error: "bob", Halt: "bob",
		Hooks:   []grapnel.HookRun{{Name: "h", Decision: grapnel.Block, Error: "bob"}},
		Reasons: []grapnel.Reason{{Hook: "h", Text: "bob"}},
		Input: &grapnel.Event{
			Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"who":"bob","long":"` + strings.Repeat("x ", 40<<10) + `"}`)},
			Native: json.RawMessage(`{"who":"bob"}`),
		},
		Changed: []grapnel.Field{grapnel.FieldInput},
	}
	after := grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"who":"bob","now":1}`)}, Native: rec.Input.Native}
	rec.Verdict = &grapnel.Verdict{Context: []string{"for bob"}, Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: after.Tool.Input}, Event: &after}
	for name, tt := range map[string]struct {
		mode  Mode
		edit  Edit
		has   string
		wrong bool
	}{
		"masked": {Masked, pass, `"who":"***"`, false}, "changes": {Masked, pass, `"context":["for ***"],"changes":{"tool.input":{"who":"***","now":1}}`, false}, "metadata": {Metadata, pass, `"text":"***"`, false}, "full": {Full, pass, `"input_at"`, false},
		"broken": {Masked, fail, `"decision":"block"`, true}, "broken, full": {Full, fail, `"error":"not kept"`, true}, "gone": {Masked, gone, `"decision":"block"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "spool")
			s, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Keep(tt.mode, tt.edit, false)
			s.Observe(context.Background(), rec)
			if err := s.Err(); (err != nil) != tt.wrong {
				t.Errorf("Err is %v, want one: %v", err, tt.wrong)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			line, err := os.ReadFile(logFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			_, line, _ = bytes.Cut(line, []byte{'\n'}) // behind the header
			if !json.Valid(line) || !strings.Contains(string(line), tt.has) {
				t.Errorf("kept is %.300s, want %s in it", line, tt.has)
			}
			side, _ := filepath.Glob(filepath.Join(dir, sideDir, "*"))
			for _, file := range append(side, logFile(dir)) {
				if data, _ := os.ReadFile(file); strings.Contains(string(data), "bob") && name != "gone" {
					t.Errorf("%s has what was taken out: %.300s", filepath.Base(file), data)
				}
			}
			if name == "gone" && strings.Contains(string(line), "who") {
				t.Errorf("the event is kept: %.300s", line)
			}
		})
	}
}
