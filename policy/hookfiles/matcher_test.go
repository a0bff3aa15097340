package hookfiles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/match"
)

// eventOf parses a payload of an agent.
func eventOf(t *testing.T, agent, payload string) *grapnel.Event {
	t.Helper()
	d, ok := dialect.FindAgent(agent)
	if !ok {
		t.Fatalf("there is no agent %q", agent)
	}
	ev, err := d.Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/p","transcript_path":"/t",` + payload + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// listens reports whether the only hook of a file listens to an event.
func listens(t *testing.T, h *Hook, ev *grapnel.Event) (bool, error) {
	t.Helper()
	spec := grapnel.Spec{Name: "x", On: h.On, Match: h.Matcher, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block}, nil
	})}
	if h.Match != nil {
		m, err := (&match.FactCache{}).Matcher(h.Match, nil, "", match.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := m.Match(ev, nil); err != nil || !ok {
			// The match of a policy that replaces a matcher never matches less.
			if h.Matcher != nil && h.Match.Path == nil {
				if ok, _ := h.Matcher.Match(ev, nil); ok {
					t.Errorf("%v listens, and %v would not", h.Matcher, h.Match.Tool)
				}
			}
			return false, err
		}
	}
	e, err := grapnel.New([]grapnel.Spec{spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := e.Plan(ev)
	if len(plan.Entries) == 0 {
		return false, nil
	}
	if why := plan.Entries[0].Error; why != "" {
		return false, fmt.Errorf("%s", why)
	}
	return true, nil
}

// A matcher of Claude Code is compared with the values that a hook of Claude Code would get,
// for events of any agent.
func TestClaudeMatcher(t *testing.T) {
	t.Parallel()
	const (
		bash   = `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`
		shell  = `"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}`
		edit   = `"hook_event_name":"BeforeTool","tool_name":"replace","tool_input":{"file_path":"a","old_string":"x","new_string":"y"}`
		mcp    = `"hook_event_name":"BeforeTool","tool_name":"mcp_memory_add","tool_input":{},"mcp_context":{"server_name":"memory","tool_name":"add"}`
		agent  = `"hook_event_name":"BeforeTool","tool_name":"invoke_agent","tool_input":{}`
		after  = `"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"a"}`
		failed = `"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"error":{"message":"no"}}`
		start  = `"hook_event_name":"SessionStart","source":"startup"`
		prompt = `"hook_event_name":"BeforeAgent","prompt":"hi"`
		notify = `"hook_event_name":"Notification","notification_type":"ToolPermission","message":"m"`
	)
	for _, tt := range []struct {
		event, matcher string
		agent, payload string
		want           bool
	}{
		{"PreToolUse", `"Bash"`, "gemini-cli", shell, true},
		{"PreToolUse", `"Bash"`, "claude-code", bash, true},
		{"PreToolUse", `"bash"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Bas"`, "gemini-cli", shell, false},
		{"PreToolUse", `"run_shell_command"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Edit|Write"`, "gemini-cli", edit, true},
		{"PreToolUse", `" Write , Edit "`, "gemini-cli", edit, true},
		{"PreToolUse", `"Write,Read"`, "gemini-cli", edit, false},
		{"PreToolUse", `"B.*"`, "gemini-cli", shell, true},
		{"PreToolUse", `"^Bash$"`, "gemini-cli", shell, true},
		{"PreToolUse", `"Ba*"`, "gemini-cli", shell, true},
		{"PreToolUse", `"!Write"`, "gemini-cli", shell, false},
		{"PreToolUse", `"/bash/i"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Bash(ls *)"`, "gemini-cli", shell, false},
		{"PreToolUse", `"*"`, "gemini-cli", shell, true},
		{"PreToolUse", `""`, "gemini-cli", mcp, true},
		{"PreToolUse", `"mcp__memory"`, "gemini-cli", mcp, false},
		{"PreToolUse", `"mcp__memory__.*"`, "gemini-cli", mcp, true},
		{"PreToolUse", `"mcp__memory__add"`, "gemini-cli", mcp, true},
		{"PreToolUse", `"Task"`, "gemini-cli", agent, true},
		{"PreToolUse", `"Agent"`, "gemini-cli", agent, true},
		{"PreToolUse", `"^Task$"`, "gemini-cli", agent, true},
		{"PreToolUse", `"Bash"`, "gemini-cli", after, false},
		{"PostToolUse", `"Bash"`, "gemini-cli", after, true},
		{"PostToolUse", `"Bash"`, "gemini-cli", failed, false},
		{"PostToolUseFailure", `"Bash"`, "gemini-cli", failed, true},
		{"SessionStart", `"startup|resume"`, "gemini-cli", start, true},
		{"SessionStart", `"clear"`, "gemini-cli", start, false},
		{"UserPromptSubmit", `"whatever"`, "gemini-cli", prompt, true},
		{"UserPromptExpansion", `""`, "gemini-cli", prompt, false},
		{"UserPromptExpansion", `"deploy"`, "claude-code", `"hook_event_name":"UserPromptExpansion","command_name":"deploy","prompt":"/deploy"`, true},
		{"UserPromptSubmit", `""`, "claude-code", `"hook_event_name":"UserPromptExpansion","command_name":"deploy","prompt":"/deploy"`, false},
		{"Notification", `"permission_prompt"`, "gemini-cli", notify, true},
		{"Notification", `"idle_prompt"`, "gemini-cli", notify, false},
	} {
		t.Run(tt.event+tt.matcher+tt.agent, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{%q:[{"matcher":%s,"hooks":[{"type":"command","command":"x"}]}]}}`, tt.event, tt.matcher)
			found := parseClaude([]File{{Path: "/h/.claude/settings.json", Data: []byte(file)}})
			if len(found.Hooks) != 1 || len(found.Errors)+len(found.Broken) > 0 {
				t.Fatalf("%s: %s", file, Text(found))
			}
			got, err := listens(t, &found.Hooks[0], eventOf(t, tt.agent, tt.payload))
			if err != nil || got != tt.want {
				t.Errorf("matcher %s at %s: %s listens %v, %v; want %v", tt.matcher, tt.event, tt.payload, got, err, tt.want)
			}
		})
	}
}

// The matchers of all formats of JavaScript programs support look-around and back-references. A
// matcher that backtracks for too long, or is too large, cannot decide, so its hook runs. GC-09.
func TestMatcherSyntax(t *testing.T) {
	t.Parallel()
	slow, large := `(\\w+)+!`, strings.Repeat("(?:a|b)", 400)
	for _, tt := range []struct {
		matcher   string
		tools     string // that it matches, of read_file, write_file and aaa...
		undecided string // the error for all other tools
	}{
		{`^(?!write_file$).*`, "read_file aaa", ""},
		{`(?<=read)_file`, "read_file", ""},
		{`^(a)\\1+$`, "aaa", ""},
		{`(?:read|write)_\\w+`, "read_file write_file", ""},
		{`^.*_file$`, "read_file write_file", ""},
		{`file|^aaa`, "read_file write_file aaa", ""},
		{slow, "", "takes longer than 1s"},
		{large, "", "longer than 2048 bytes"},
	} {
		for _, format := range []string{"claude-code", "gemini-cli"} {
			t.Run(format+" "+tt.matcher[:min(len(tt.matcher), 20)], func(t *testing.T) {
				t.Parallel()
				event := map[string]string{"claude-code": "PreToolUse", "gemini-cli": "BeforeTool"}[format]
				file := fmt.Sprintf(`{"hooks":{%q:[{"matcher":"%s","hooks":[{"type":"command","command":"x"}]}]}}`, event, tt.matcher)
				found := Find(format).Parse([]File{{Path: "/h/settings.json", Data: []byte(file)}})
				if len(found.Hooks) != 1 || len(found.Errors)+len(found.Broken) > 0 {
					t.Fatalf("%s: %s", file, Text(found))
				}
				for _, tool := range []string{"read_file", "write_file", "aaa"} {
					name := tool
					if tt.undecided != "" {
						name = strings.Repeat("a", 60)
					}
					ev := &grapnel.Event{
						Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "a"},
						Tool: &grapnel.Tool{Name: name, Class: grapnel.ClassOther, Input: []byte(`{}`)},
					}
					got, err := found.Hooks[0].Matcher.Match(ev, nil)
					switch want := slices.Contains(strings.Fields(tt.tools), tool); {
					case tt.undecided == "" && (got != want || err != nil):
						t.Errorf("matcher %s at %s: %v, %v; want %v", tt.matcher, name, got, err, want)
					case tt.undecided != "" && (!errors.Is(err, grapnel.ErrUndecided) || !strings.Contains(err.Error(), tt.undecided)):
						t.Errorf("matcher %s at %s: %v, %v; want an error with %q", tt.matcher, name, got, err, tt.undecided)
					}
				}
			})
		}
	}
}

// An `if` checks each command of a line. If the result is unknown, the hook runs.
func TestClaudeIf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule, tool, input string
		want              bool
	}{
		{"Bash", "Bash", `{"command":"ls"}`, true},
		{"Bash()", "Bash", `{"command":"ls"}`, true},
		{"Bash(*)", "Bash", `{"command":"ls"}`, true},
		{"Bash(echo *)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(echo:*)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(ec*)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(echo hi > bash.txt)", "Bash", `{"command":"echo hi > bash.txt"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"cd x && git push origin main"}`, true},
		{"Bash(git push *)", "Bash", `{"command":"git push"}`, true},
		{"Bash(git push *)", "Bash", `{"command":"git pushx"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"git status # git push x"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"$X $Y"}`, true},
		{"Bash(* --force)", "Bash", `{"command":"git push --force"}`, true},
		{"Bash(ls)", "Write", `{"file_path":"/a","content":"ls"}`, false},
		{"bash(ls)", "Bash", `{"command":"ls"}`, false},
		{"Write", "Write", `{"file_path":"/a","content":""}`, true},
		{"Edit(*.ts)", "Write", `{"file_path":"/p/src/a.ts","content":""}`, true},
		{"Edit(*.ts)", "Edit", `{"file_path":"src/a.ts"}`, true},
		{"Edit(*.ts)", "Edit", `{"file_path":"src/a.go"}`, false},
		{"Edit(*.ts)", "Read", `{"file_path":"src/a.ts"}`, false},
		{"Read(./.env)", "Read", `{"file_path":"/p/.env"}`, true},
		{"Read(./.env)", "Read", `{"file_path":"/p/x/.env"}`, false},
		{"Read(.env)", "Read", `{"file_path":"/p/x/.env"}`, true},
		{"Read(secrets/)", "Read", `{"file_path":"/p/secrets/a/b"}`, true},
		{"Write(src/**)", "Write", `{"file_path":"/p/src/a/b"}`, true},
		{"Write(//etc/**)", "Write", `{"file_path":"/etc/hosts"}`, true},
		{"Write(//etc/**)", "Write", `{"file_path":"/p/etc/hosts"}`, false},
		{"WebFetch(domain:example.com)", "WebFetch", `{"url":"https://example.com/x"}`, true},
		{"WebFetch(domain:example.com)", "WebFetch", `{"url":"https://example.org/example.com"}`, false},
		{"WebFetch(domain:*.example.com)", "WebFetch", `{"url":"https://a.example.com/"}`, true},
		{"mcp__memory", "mcp__memory__add", `{}`, true},
		{"mcp__memory__*", "mcp__memory__add", `{}`, true},
		{"mcp__mem", "mcp__memory__add", `{}`, false},
	} {
		t.Run(tt.rule+" "+tt.input, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","if":%q}]}]}}`, tt.rule)
			found := parseClaude([]File{{Path: "/s.json", Data: []byte(file)}})
			if tt.rule == "bash(ls)" { // a rule with an argument for an unknown tool
				if len(found.Hooks) != 0 || len(found.Errors) != 1 {
					t.Errorf("%s", Text(found))
				}
				return
			}
			if len(found.Hooks) != 1 {
				t.Fatalf("%s", Text(found))
			}
			got, err := listens(t, &found.Hooks[0], eventOf(t, "claude-code", fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s`, tt.tool, tt.input)))
			if err != nil || got != tt.want {
				t.Errorf("if %q for %s %s: listens %v, %v; want %v", tt.rule, tt.tool, tt.input, got, err, tt.want)
			}
		})
	}
}

// If two equal handlers would run, only the later one runs.
func TestClaudeOnce(t *testing.T) {
	t.Parallel()
	found := parseClaude([]File{{Path: "/s.json", Data: []byte(`{"hooks":{"PreToolUse":[
		{"matcher":"*","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"Bash|Write","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"Write","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"*","hooks":[{"type":"command","command":"y"}]}
	]}}`)}})
	for tool, want := range map[string]string{"Read": "0 3", "Bash": "1 3", "Write": "2 3"} {
		var got []string
		for i := range found.Hooks {
			ok, err := listens(t, &found.Hooks[i], eventOf(t, "claude-code", fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":{}`, tool)))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, fmt.Sprint(i))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at %s the hooks %v run, want %s", tool, got, want)
		}
	}
}

// A tool_pattern is compared with the whole name of the tool in mini-claw.
//
// Proves: MC-18
func TestMiniclawPattern(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, tool string
		want          bool
	}{
		{"bash", "Bash", true},
		{"Bash", "Bash", false},
		{"ba*", "Bash", true},
		{"b?sh", "Bash", true},
		{"**", "Bash", true},
		{"[a-c]ash", "Bash", true},
		{"[!a]ash", "Bash", true},
		{"[!b]ash", "Bash", false},
		{"[]b]ash", "Bash", true},
		{"[z-a]ash", "Bash", false},
		{"as", "Bash", false},
		{"read", "Read", true},
		{"edit", "Edit", true},
		{"{bash,read}", "Bash", false},
		{"mcp__*__add", "mcp__memory__add", true},
		{"mcp__memory__add", "mcp__memory__add", true},
		{".*", "Bash", false},
	} {
		t.Run(tt.pattern, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{"pre_tool":[{"command":"x","tool_pattern":%q}]}}`, tt.pattern)
			found := parseMiniclaw([]File{{Path: "/s.json", Data: []byte(file)}})
			if len(found.Hooks) != 1 {
				t.Fatalf("%s", Text(found))
			}
			payload := fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":{}`, tt.tool)
			if got, err := listens(t, &found.Hooks[0], eventOf(t, "claude-code", payload)); err != nil || got != tt.want {
				t.Errorf("%q and %s: listens %v, %v; want %v", tt.pattern, tt.tool, got, err, tt.want)
			}
		})
	}
}

// A pattern that Rust's glob refuses is refused.
//
// Proves: MC-18
func TestMiniclawPatternThatIsNone(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"***", "a**", "**b", "a**/b", "[", "[]", "[!]", "a["} {
		if _, err := compileGlob(pattern); err == nil {
			t.Errorf("%q is a glob", pattern)
		}
	}
	for pattern, want := range map[string]bool{"**": true, "**/a": true, "a/**": false, "x/**/a": false, "*": true, "": false} {
		re, err := compileGlob(pattern)
		if err != nil || re.MatchString("a") != want {
			t.Errorf("%q matches a: %v, %v; want %v", pattern, !want, err, want)
		}
	}
}

// A matcher of OpenClaw names its own tools. For other agents it matches the corresponding
// tools.
func TestOpenClawMatcher(t *testing.T) {
	t.Parallel()
	found := parseOpenClaw([]File{{Path: "/h.json", Data: []byte(`{"before_tool_call":[{"command":"x","matcher":["Exec","memory__add"]}]}`)}})
	if len(found.Hooks) != 1 {
		t.Fatalf("%s", Text(found))
	}
	for payload, want := range map[string]bool{
		`"tool_name":"Bash","tool_input":{"command":"ls"}`:             true,
		`"tool_name":"mcp__memory__add","tool_input":{}`:               true,
		`"tool_name":"mcp__memory__list","tool_input":{}`:              false,
		`"tool_name":"Write","tool_input":{"file_path":"a"}`:           false,
		`"tool_name":"exec","tool_input":{"command":"ls"}`:             true,
		`"tool_name":"WebFetch","tool_input":{"url":"https://a.test"}`: false,
	} {
		if got, err := listens(t, &found.Hooks[0], eventOf(t, "claude-code", `"hook_event_name":"PreToolUse",`+payload)); err != nil || got != want {
			t.Errorf("%s: listens %v, %v; want %v", payload, got, err, want)
		}
	}
}

// The value of ${CLAUDE_PROJECT_DIR} and similar variables is always one word in a command
// line.
func TestForeignQuoting(t *testing.T) {
	t.Parallel()
	if got, want := quoteArgs([]string{"a b", "${X}/it's", "$(rm)"}, "${X}"), `exec 'a b' ''"${X}"'/it'\''s' '$(rm)'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for line, want := range map[string]string{
		`$GEMINI_CWD/x`:                `"$GEMINI_CWD"/x`,
		`${GEMINI_CWD}x "$GEMINI_CWD"`: `"${GEMINI_CWD}"x "$GEMINI_CWD"`,
		`'$GEMINI_CWD' \$GEMINI_CWD`:   `'$GEMINI_CWD' \$GEMINI_CWD`,
		`"it's $GEMINI_CWD" $HOME`:     `"it's $GEMINI_CWD" $HOME`,
		`"\"$GEMINI_CWD" $GEMINI_CWD`:  `"\"$GEMINI_CWD" "$GEMINI_CWD"`,
		`echo \`:                       `echo \`,
	} {
		if got := quoteVariables(line, geminiVariables); got != want {
			t.Errorf("%s becomes %s, want %s", line, got, want)
		}
	}
}

// The match of a policy that replaces a matcher never matches less, for every tool of every
// agent.
func TestNearestNeverLess(t *testing.T) {
	t.Parallel()
	var events []*grapnel.Event
	add := func(agent string, tool grapnel.Tool) {
		events = append(events, &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: agent}, Tool: &tool})
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for _, row := range d.Tools {
			add(d.Name, grapnel.Tool{Name: row.Native, Class: row.Class, Input: []byte(`{}`)})
		}
		for _, name := range []string{"Bash", "write_file", "Unheard", "edit"} {
			add(d.Name, grapnel.Tool{Name: name, Class: grapnel.ClassOther})
		}
		for _, mcp := range []grapnel.MCP{{Server: "memory", Tool: "add"}, {Server: "a/b", Tool: "write_file"}, {Server: "x_y", Tool: "Bash"}} {
			add(d.Name, grapnel.Tool{Name: "as it likes", Class: grapnel.ClassMCP, MCP: &mcp})
		}
	}
	add("openclaw", grapnel.Tool{Name: "exec", Class: grapnel.ClassShell, Commands: []string{"ls"}})
	add("openclaw", grapnel.Tool{Name: "apply_patch", Class: grapnel.ClassEdit, Paths: []grapnel.Path{{Path: "a"}}, Content: "x"})
	narrow := 0
	for _, pattern := range []string{
		"Bash", "Edit|Write", "Write,Edit", "B.*", "^Bash$", "mcp__.*", "mcp__memory__.*", "^mcp_memory_", "memory_add", "write_file", "write_file|replace",
		"shell", "^run_shell_command$", ".*", "Task", "Agent", "Skill", "a", "e$", "bash", "b*", "*it*", "read", "subagent", "ask_user", "Bash|.*file",
	} {
		files := map[string]string{
			"claude-code": `{"hooks":{"PreToolUse":[{"matcher":%q,"hooks":[{"type":"command","command":"x"}]}]}}`,
			"gemini-cli":  `{"hooks":{"BeforeTool":[{"matcher":%q,"hooks":[{"type":"command","command":"x"}]}]}}`,
			"miniclaw":    `{"hooks":{"pre_tool":[{"tool_pattern":%q,"command":"x"}]}}`,
		}
		for format, text := range files {
			found := Find(format).Parse([]File{{Path: "/s.json", Data: fmt.Appendf(nil, text, pattern)}})
			for i := range found.Hooks {
				h := &found.Hooks[i]
				if h.Match == nil || h.Matcher == nil {
					continue
				}
				narrow++
				m, err := (&match.FactCache{}).Matcher(h.Match, nil, "", match.Reading{})
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range events {
					matched, _ := m.Match(ev, nil)
					if ok, err := h.Matcher.Match(ev, nil); ok && err == nil && !matched {
						t.Errorf("%s %q listens to %s of %s, and %v would not", format, pattern, ev.Tool.CanonicalName(), ev.Agent.Name, h.Match.Tool)
					}
				}
			}
		}
	}
	if narrow < 30 {
		t.Errorf("only %d matchers were compared", narrow)
	}
}
