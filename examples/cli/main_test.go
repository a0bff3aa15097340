package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/local"
)

const rules = `version: 1
hooks:
  - {name: no-push, on: tool.before, match: {command: git push}, block: Not from here.}
  - {name: ask, on: tool.before, match: {command: rm}, ask: Delete this?}
`

// Only commands that no rule stops, and that a person has approved, reach the shell.
func TestRun(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		line, policy, stdin string
		runs                bool
		want                string // a part of the result
	}{
		"allowed":     {line: "echo git push", policy: policy, runs: true, want: "output of the shell"},
		"blocked":     {line: "cd x && sudo git push", policy: policy, stdin: "y\n", want: "Not from here."},
		"yes":         {line: "rm a", policy: policy, stdin: "y\n", runs: true, want: "output of the shell"},
		"no":          {line: "rm a", policy: policy, stdin: "n\n", want: "The person said no."},
		"other":       {line: "rm a", policy: policy, stdin: "yesterday\n", want: "The person said no."},
		"unanswered":  {line: "rm a", policy: policy, want: "EOF"},
		"broken off":  {line: "rm a", policy: policy, stdin: "y", want: "EOF"},
		"mistyped":    {line: "echo hello", policy: policy + ".yml", want: "policy.yaml.yml"},
		"no approver": {line: "rm a", policy: policy, stdin: "-", want: "Delete this?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := ""
			shell := func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
				ran = string(input)
				return json.RawMessage("output of the shell"), nil
			}
			ask := terminal(strings.NewReader(test.stdin), io.Discard)
			if test.stdin == "-" {
				ask = nil
			}
			opts := &local.Options{Root: t.TempDir(), CWD: t.TempDir(), Policies: []string{test.policy}}
			r, err := run(t.Context(), opts, ask, test.line, shell)
			if err != nil {
				t.Fatal(err)
			}
			if (ran != "") != test.runs || (r.Refusal == nil) != test.runs {
				t.Errorf("the shell got %q, refusal %v, want it to run: %v", ran, r.Refusal, test.runs)
			}
			if !strings.Contains(r.Text(), test.want) {
				t.Errorf("the result is %q, want %q", r.Text(), test.want)
			}
		})
	}
}
