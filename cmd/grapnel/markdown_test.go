package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/staging"
	"github.com/grapnel-dev/grapnel/internal/replay"
)

// notMarkdown are texts that have another meaning in a comment if they are not escaped.
var notMarkdown = []string{
	"a | b", `a \| b`, `a \\| b`, `a \\\| b |`, "|", `\`, `x\`, "`", "``` code", "a`b`c", "</details>", "<script>alert(1)</script>", "<!-- ", "@everybody", "#1 fixes #2",
	"https://evil.example", "[x](javascript:alert(1))", "![x](https://evil.example/p.png)", "line\nbreak", "line\r\n\r\n# heading", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "\u2028end", "\xff\xfe",
	"**bold** _x_ ~~y~~", "$math$", ":tada:", "", " ", "\u200b", strings.Repeat("long ", 10_000), strings.Repeat(`\|`, 100), "&lt;b&gt; &#124;", "---", "- [ ] task",
}

var (
	code    = regexp.MustCompile("`[^`\n]+`")
	notABar = regexp.MustCompile(`\\\|`) // an escaped bar does not end a cell
	tag     = regexp.MustCompile(`<[^>]*>?`)
	special = regexp.MustCompile("[`*_~@#$\\[\\]\\\\\x00-\x1f\x7f\u202e\u2028\uFFFD]")
)

// For any text in Records, a comment keeps its structure: each text is code in its own cell or
// line.
func TestReplayMarkdownIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range notMarkdown {
		r := staging.Replayed{Policy: "/p/" + text, Against: text, Report: &replay.Report{
			Played: 2, Counts: map[replay.Class]int{replay.NewlyBlocked: 1},
			Differences: []replay.Difference{{
				Class: replay.NewlyBlocked, Now: grapnel.Block, By: []replay.Rule{{Name: text}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}}, Count: 1,
				Examples: []replay.Example{{ID: text, Time: time.Now(), Agent: text, Session: text, Event: grapnel.Kind(text), Tool: text, About: text, Then: text, Now: text}},
			}},
			Skipped:       []replay.Skipped{{Cause: replay.Torn, Count: 1, ID: text}},
			RecordedHooks: []replay.RecordedHook{{Name: text, Answers: 1}},
			Gone:          []replay.GoneSource{{Source: text, Count: 1}},
		}}
		var out bytes.Buffer
		if err := (&console{cli.Console{Out: &out}}).printReplayMarkdown(&r); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(out.String(), "\n")
		if want := 26; len(got) != want {
			t.Errorf("%.40q makes %d lines, want %d:\n%s", text, len(got), want, out.String())
		}
		for _, line := range got {
			bare := code.ReplaceAllString(line, "x") // without code spans
			if strings.HasPrefix(line, "|") {
				cells := strings.Count(notABar.ReplaceAllString(line, ""), "|") - 1
				if cells != 4 || strings.Count(bare, "|")-1 != 4 {
					t.Errorf("%.40q: a row of %d cells, want 4: %s", text, cells, line)
				}
			}
			if outside := special.FindString(strings.TrimPrefix(bare, "### ")); outside != "" {
				t.Errorf("%.40q: %q stands outside of code: %s", text, outside, line)
			}
			if tags := tag.FindAllString(bare, -1); len(tags) > 0 && !strings.HasPrefix(line, "<") {
				t.Errorf("%.40q: tags %v in %s", text, tags, line)
			}
			if len(line) > 2000 {
				t.Errorf("%.40q: a line of %d bytes", text, len(line))
			}
		}
	}
}
