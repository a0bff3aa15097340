//go:build system

package jsregexp

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// Node.js agrees with every case, and disagrees with every difference.
func TestNode(t *testing.T) {
	t.Parallel()
	type question struct{ Pattern, Text string }
	var questions []question
	var want []string
	ask := func(pattern, text, result string) {
		questions, want = append(questions, question{pattern, text}), append(want, result)
	}
	for pattern, tt := range cases {
		if tt.invalid {
			ask(pattern, "", "invalid")
		}
		for _, text := range tt.match {
			ask(pattern, text, "true")
		}
		for _, text := range tt.no {
			ask(pattern, text, "false")
		}
	}
	for pattern, text := range differences {
		ask(pattern, text, "false or invalid")
	}
	ask(`[a-\d]`, "5", "true") // invalid here
	input, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", `
		const questions = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(questions.map(({Pattern, Text}) => {
			try { return String(new RegExp(Pattern).test(Text)); } catch { return "invalid"; }
		})));`)
	cmd.Stdin = strings.NewReader(string(input))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(want) {
		t.Fatalf("%d results, %v; want %d", len(got), err, len(want))
	}
	for i, q := range questions {
		if !strings.Contains(want[i], got[i]) {
			t.Errorf("new RegExp(%q).test(%q) is %s in Node.js, want %s", q.Pattern, q.Text, got[i], want[i])
		}
	}
}
