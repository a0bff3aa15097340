package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// The name of a line is the same whether the line was decoded before or not.
func TestName(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full})
	hostile := record(`"decision":"none","late":true`)
	hostile.Tool = `","decision":"none`
	hostile.Decision = grapnel.Ask
	big := record("big")
	big.Input.Tool.Content = string(make([]byte, maxLine))
	observe(t, s, record("plain"), hostile, big)
	if _, err := s.Note("test", grapnel.Record{ID: "note"}); err != nil {
		t.Fatal(err)
	}
	late := `{"id":"a","time":"2026-03-04T05:06:07Z","hooks":[{"decision":"block"}],"ms":1,"late":true}`
	for _, line := range []string{
		late,
		`{"id":"a","time":"2026-03-04T05:06:07Z","hooks":[{"name":"x","decision":"block"}],"ms":1}`,
		`{"id":"a","time":"2026-03-04T05:06:07Z","hooks":[{"name":"x","decision":"allow"}],"decision":"block"}`,
		`{"id":"a","time":"2026-03-04T05:06:07Z","decision":"deny","hooks":[]}`, // of a newer version
		`{"id":"a","time":"2026-03-04T05:06:07Z","decision":"\u0062lock","hooks":[]}`,
		`{"id":"a","time":"2026-03-04T05:06:07Z","decision":{"decision":"block"},"hooks":[]}`,
		`{"time":"2026-03-04T05:06:07Z","decision":"block","id":"a"}`,
	} {
		if err := s.append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	appendText(t, logFile(dir), "torn\n")
	names := map[Name]int{}
	for line, err := range openLog(t, dir).Raw(0) {
		if err != nil || line.Text == nil {
			continue
		}
		decoded := line
		decoded.Decode()
		if got, want := line.Name(), decoded.Name(); got != want {
			t.Errorf("%s:\nthe name is %+v, and of the decoded line %+v", line.Text, got, want)
		}
		names[decoded.Name()]++
	}
	sum := sha256.Sum256([]byte(late))
	for name, want := range map[Name]struct {
		n    int
		part string
	}{
		{"plain", grapnel.Block, ""}:                       {1, "block"},
		{"a", grapnel.None, ""}:                            {1, "none"},
		{"a", grapnel.Block, ""}:                           {3, "block"},
		{`"decision":"none","late":true`, grapnel.Ask, ""}: {1, "ask"},
		{"a", grapnel.None, string(sum[:16])}:              {1, hex.EncodeToString(sum[:16])},
	} {
		if names[name] != want.n || name.Part() != want.part {
			t.Errorf("%d lines have the name %+v with the part %s, want %d and %s", names[name], name, name.Part(), want.n, want.part)
		}
	}
}

func BenchmarkName(b *testing.B) {
	text := []byte(`{"id":"019aa","time":"2026-03-04T05:06:07Z","agent":"claude-code","session":"s1","event":"tool.before","tool":"Bash","decision":"none","hooks":[{"name":"no-force-push","source":"git","line":12,"decision":"none","ms":0.02}],"host":"laptop","user":"ann","ms":0.4,"input":{"kind":"tool.before","tool":{"name":"Bash","input":{"command":"go test ./... -run Test -count=1","description":"Run the tests"}}}}`)
	for b.Loop() {
		line := Line{Line: journal.Line{Text: text}}
		_ = line.Name()
	}
}
