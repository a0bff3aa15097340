package hooktest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// updating reports whether the test's package defines a flag -update and it is set. hooktest
// defines no such flag, because defining one name twice panics.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// play compares a conversation with its file, or updates the file.
func (s *dialectSuite) play(t testing.TB, c conversation) {
	t.Helper()
	if len(bytes.TrimSpace(c.archive.Comment)) == 0 {
		t.Errorf("%s has no comment", c.file)
	}
	engine := fixedEngine(t, c.outcome, grapnel.OnErrorDefault)
	v := engine.Fire(t.Context(), c.ev)
	reply := s.Write(c.ev, &v, c.argv)
	whole := dialect.Answer(t.Context(), engine, s.Dialect, c.input(c.payload))
	whole.Silent = reply.Silent // only Answer sets Silent
	if !reflect.DeepEqual(whole, reply) {
		t.Errorf("the reply of Answer differs from Read, Fire and Write: got %s, want %s", shownReply(whole), shownReply(reply))
	}

	got := &txtar.Archive{Comment: c.archive.Comment}
	for _, f := range c.archive.Files {
		if f.Name == "stdin.json" || f.Name == "argv" || f.Name == "outcome.json" {
			got.Files = append(got.Files, f)
		}
	}
	add := func(name string, data []byte) {
		got.Files = append(got.Files, txtar.File{Name: name, Data: data})
	}
	add("event.json", readable(t, bare(c.ev)))
	add("verdict.json", readable(t, shownVerdict(&v)))
	add(fmt.Sprintf("reply: exit %d", reply.Exit), reply.Stdout)
	if len(reply.Stderr) > 0 {
		add("stderr", reply.Stderr)
	}
	if updating() {
		if err := os.WriteFile(c.file, txtar.Format(got), 0o644); err != nil { //nolint:security // test data in the source tree
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(c.archive)), string(txtar.Format(got))); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites):\n%s", c.file, diff)
	}
}

// shownVerdict returns the form of a Verdict in verdict.json, where reasons are only their texts.
func shownVerdict(v *grapnel.Verdict) any {
	type verdict struct {
		Decision    grapnel.Decision                  `json:"decision"`
		Reasons     []string                          `json:"reasons,omitempty"`
		Messages    []string                          `json:"messages,omitempty"`
		Context     []string                          `json:"context,omitempty"`
		Changes     map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`
		Halt        string                            `json:"halt,omitempty"`
		Native      map[string]json.RawMessage        `json:"native,omitempty"`
		Unsupported []string                          `json:"unsupported,omitempty"`
	}
	shown := verdict{Decision: v.Decision, Messages: v.Messages, Context: v.Context, Changes: v.Changes, Halt: v.Halt, Native: v.Native, Unsupported: v.Unsupported}
	for _, r := range v.Reasons {
		shown.Reasons = append(shown.Reasons, r.Text)
	}
	return shown
}

// readable formats JSON on one line if it is short, and indented otherwise.
func readable(t testing.TB, v any) []byte {
	t.Helper()
	line, err := rawjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	line = append(line, '\n')
	if len(line) <= 120 {
		return line
	}
	var long bytes.Buffer
	if err := json.Indent(&long, line, "", "  "); err != nil {
		t.Fatal(err)
	}
	return long.Bytes()
}
