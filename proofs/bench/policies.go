package main

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/packs"
)

// shellLine is a command of an agent: several commands, a pipe, a redirection, quotes and a
// loop. No rule of the benchmark stops it.
const shellLine = `cd web && npm ci --no-audit && (npm test 2>&1 | tee test.log | tail -n 40) && ` +
	`git add -A && git commit -m "fix: handle empty rows" && for f in dist/*.js; do gzip -9k "$f"; done`

// The last rule of a policyFile blocks canaryCommand, with canaryReason.
const (
	canaryCommand = "grapnel-bench-canary"
	canaryReason  = "This is the canary."
)

// policyFile writes a policy of n rules as people write them: mostly commands, paths and
// lists of tools, some expressions about one tool, a few that look at content. One in ten
// only observes some tools. The last rule blocks the canary.
func policyFile(n int, watched string) string {
	return "version: 1\nhooks:\n" + rules(0, n-1, watched) + fmt.Sprintf(rule, n-1, "match: {command: "+canaryCommand+"}", "block: "+canaryReason)
}

// rules writes the rules with the numbers from first to before end.
func rules(first, end int, watched string) string {
	var b strings.Builder
	for i := first; i < end; i++ {
		b.WriteString(policyRule(i, watched))
	}
	return b.String()
}

// packsFile writes a policy that uses every pack, and blocks the canary.
func packsFile() string {
	return "version: 1\nuse: [" + strings.Join(packs.All().Names(), ", ") + "]\nhooks:\n" +
		fmt.Sprintf(rule, 0, "match: {command: "+canaryCommand+"}", "block: "+canaryReason)
}

const rule = "  - name: rule-%d\n    on: tool.before\n    %s\n    %s\n"

func policyRule(i int, watched string) string {
	match, answer := "", ""
	switch i % 10 {
	case 0:
		match, answer = "match: {tool: ["+watched+"]}\n    mode: observe", "block: Watched, not blocked."
	case 1:
		match, answer = fmt.Sprintf("match: {command: kubectl delete namespace team-%d}", i), "ask: This deletes a namespace. Go on?"
	case 2:
		match, answer = fmt.Sprintf(`match: {tool: [write, edit], path: "deploy/region-%d/**/*.tf"}`, i), "ask: This changes production. Go on?"
	case 3:
		match, answer = fmt.Sprintf(`match: {path: ["**/.env.%d", "**/id_ed25519_%d"]}`, i, i), "block: Keys stay where they are."
	case 4:
		match, answer = fmt.Sprintf("match: {tool: [fetch, mcp__server%d__*]}", i), "ask: This leaves the machine. Go on?"
	case 5:
		match, answer = fmt.Sprintf("match: {tool: [task, search, other%d], agent: gemini}", i), "block: Not with this agent."
	case 6:
		tool := []string{"write", "shell", "fetch"}[i/10%3]
		match = fmt.Sprintf("match: {tool: %s}\n    when: session.mode == \"plan\" && len(tool.input) > %d", tool, i)
		answer = "block: Not while planning."
	case 7:
		match, answer = fmt.Sprintf(`match: {content: "BEGIN PRIVATE KEY %d"}`, i), "block: Keys stay where they are."
	case 8:
		match, answer = fmt.Sprintf("match: {command: git push --force --repo=fork-%d}", i), "block: Push a new branch instead."
	case 9:
		match, answer = fmt.Sprintf("match: {command: terraform destroy -target=module.m%d}", i), "block: Ask the platform team."
	}
	return fmt.Sprintf(rule, i, match, answer)
}

// The tools that the observing rules of a policyFile match.
const (
	watchThis    = "shell, write" // the benchmark calls them
	watchNothing = "task, mcp__tracker__*"
)

// text returns n bytes as a model would write them into a file: lines, quotes, letters
// beyond ASCII.
func text(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "{\"row\": %d, \"name\": \"Zoë\", \"path\": \"C:\\\\data\\\\%d\", \"note\": \"a < b && c > d\"}\n", i, i*7919)
	}
	return strings.ToValidUTF8(b.String()[:n], "")
}
