package check

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestUsualPatterns checks that patterns which mean what they say get no warning. The wrong ones are in
// cmd/grapnel/testdata/wrong-policies.txtar.
func TestUsualPatterns(t *testing.T) {
	t.Parallel()
	for key, patterns := range map[string][]string{
		"command": {
			"rm -rf", "git push --force", "rm *.*", "cat .env.*", "python3.* -m http.server", "killall -r .*", "grep -rn ^a.*b$ .", "rm -rf [.]*", "chmod a+x",
			"git commit -m \"don’t\"", "curl -X DELETE", "npm run build*", "find . -name '*.tmp' -delete", "echo $HOME", "rm -rf $HOME", "sed -i s/a.*/b/", "/usr/bin/rm", "dd if=*",
		},
		"path":    {"./.env", "**/.env", "**/.*", ".*", ".*/config", "src/**/*.{go,md}", "~/.ssh/**", "app/(group)/page.tsx", "/etc/**", "a.*", "C:/Users/*", "Bob’s files/*"},
		"branch":  {"main", "release/*", "refs/heads/main", "/^(main|x)$/", "c++", "v1.2", "feature-[0-9]"},
		"pushes":  {"main", "refs/tags/*", "*"},
		"tool":    {"shell", "Bash", "mcp__github__*", "browser.*", "*", "/^(Bash|Read)$/", "my_tool", "[Bb]ash"},
		"host":    {"example.com", "*.example.com", "/^(.*\\.)?example\\.com$/", "127.0.0.1", "example.*"},
		"url":     {"https://example.com/*", "*/upload?*", "/\\.onion/"},
		"mcp":     {"github", "git*"},
		"text":    {"password", "/AKIA[0-9A-Z]{16}/", "a | b", "**bold**", "“quoted” text", "don’t", "/usr/bin", "C:\\Users", "$5"},
		"content": {"eval(", "import os", "/(?i)secret/", "a+b", "x.y"},
		"agent":   {"claude-code", "*"},
	} {
		for _, pattern := range patterns {
			if problem, hint := oddPattern(key, pattern); problem != "" {
				t.Errorf("%s: %s: %s (%s)", key, pattern, problem, hint)
			}
		}
	}
}

// TestPatternHints checks suggestions that are made of the pattern.
func TestPatternHints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, pattern, want string }{
		{"command", "^git push$", "`command: git push`"},
		{"command", "rm.*-rf", "`command: rm -rf`"},
		{"command", `rm\s+-rf`, "`command: rm -rf`"},
		{"command", "git.*push", "`command: git push`"},
		{"command", "“rm” –rf", "command: 'rm –rf'"},
		{"tool", "^Bash$", "`tool: \"Bash\"`"},
		{"branch", "origin/main", "`branch: main`"},
		{"pushes", "HEAD:main", "`pushes: main`"},
		{"pushes", "origin main", "`pushes: main`"},
		{"branch", "HEAD", "for example"},
		{"branch", "a..b", "for example"},
		{"branch", "main/", "for example"},
		{"tool", "^mcp__.*", "`tool: \"mcp__*\"`"},
		{"tool", "^Bash$|^Read$", "`tool: /^Bash$|^Read$/`"},
		{"tool", "/bash/i", "/(?i)bash/"},
		{"host", `.*\.example\.com$`, "`host: \"*.example.com\"`"},
		{"url", "^https://", "`url: \"https://*\"`"},
		{"path", "%USERPROFILE%/.ssh/**", "~/"},
		{"path", ".env", "`path: \"**/.env\"`"},
		{"tool", "Bash\u00a0", "plain spaces"},
		{"content", `\bpassword\b`, "`content: /\\bpassword\\b/`"},
	} {
		if problem, hint := oddPattern(tt.key, tt.pattern); problem == "" || !strings.Contains(hint, tt.want) {
			t.Errorf("%s: %s: %q (%s), want %s", tt.key, tt.pattern, problem, hint, tt.want)
		}
	}
}

// TestIgnored checks where a comment silences a warning.
func TestIgnored(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string // the warning is in the line with !, its hook begins in the line with -
		want bool
	}{
		{"- name: x\n  block: no ! # grapnel:ignore odd-reason", true},
		{"- name: x\n  # grapnel:ignore long-timeout, odd-reason\n  # because\n  block: no !", true},
		{"# grapnel:ignore odd-reason\n- name: x\n  on: y\n  block: no !", true},
		{"- name: x # grapnel:ignore odd-reason\n  on: y\n  block: no !", true},
		{"# grapnel:ignore odd-reason\n- name: w\n- name: x\n  block: no !", false},
		{"# grapnel:ignore odd-reasons\n- name: x\n  block: no !", false},
		{"# odd-reason\n- name: x\n  block: no !", false},
		{"- name: x\n  block: no !\n  # grapnel:ignore odd-reason", false},
	} {
		lines := strings.Split(tt.text, "\n")
		var own []ownHook
		line := 0
		for i, text := range lines {
			if strings.HasPrefix(text, "-") {
				own = append(own, ownHook{Hook: &policyfile.Hook{Line: i + 1}})
			}
			if strings.Contains(text, "!") {
				line = i + 1
			}
		}
		f := oddReason.finding(&policyfile.Error{Line: line})
		if got := ignored(&f, lines, own); got != tt.want {
			t.Errorf("%q is ignored: %v, want %v", tt.text, got, tt.want)
		}
		if f := badPolicy.finding(&policyfile.Error{Line: line}); ignored(&f, lines, own) {
			t.Errorf("%q: an error is ignored", tt.text)
		}
	}
}
