//go:build e2e && linux

package e2e

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/webhook/webhooktest"
)

// A job is an everyday task of a new user: follow a link of the index of the documentation, copy the
// policy, and let the agent work.
type job struct {
	link string // in docs/README.md; the heading, if any, is above the policies
	do   func(t *testing.T, g guarded, policies []string)
	// limits has, for an agent that does the job in another way, the documentation of it.
	limits map[string]sentence
}

// A sentence is a part of a page of docs.
type sentence struct{ page, text string }

var jobs = map[string]job{
	"block a command": {link: "recipes.md#block-a-command", do: blockCommand},
	"format":          {link: "recipes.md#format-after-an-edit", do: format},
	"tests first":     {link: "recipes.md#tests-before-stop", do: testsFirst},
	"context":         {link: "recipes.md#context-at-the-start", do: contextAtStart},
	"not on main":     {link: "branches.md", do: notOnMain},
	"false alarm": {link: "troubleshooting.md#stop-a-false-alarm", do: falseAlarm, limits: map[string]sentence{
		agents.Codex.ID: {"agents/codex.md", "Codex itself refuses `rm -f` and `rm -rf`"},
	}},
	"Slack":     {link: "chat.md", do: blocksToSlack},
	"ten calls": {link: "recipes.md#ten-calls-an-hour", do: tenCalls},
	"production": {link: "recipes.md#ask-before-production", do: askBeforeProduction, limits: map[string]sentence{
		agents.ClaudeCode.ID: {"agents/claude-code.md", "**In a headless run (`-p`), an ask becomes a refusal.** Its reason is the question."},
		agents.Codex.ID:      {"agents/codex.md", "An ask becomes a block, and the reason mentions this."},
	}},
	"mask secrets": {link: "recipes.md#mask-secrets", do: maskSecrets, limits: map[string]sentence{
		agents.Codex.ID: {"agents/codex.md", "A block replaces the result; its text is the new output."},
	}},
}

// The ten everyday jobs work in the real agents with the policies of the documentation. Each check is
// outside of Grapnel: files, a git remote, a server, and the requests to the model.
func TestJobs(t *testing.T) {
	t.Parallel()
	for name, j := range jobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := policiesOf(t, j.link)
			for agent, limit := range j.limits {
				if !strings.Contains(page(t, limit.page), limit.text) {
					t.Errorf("docs/%s no longer says about %s: %q", limit.page, agent, limit.text)
				}
			}
			among(t, []*agents.Agent{agents.ClaudeCode, agents.Codex, agents.CodexCode}, func(t *testing.T, a *agents.Agent) {
				j.do(t, guard(t, a, policies[0]), policies)
			})
		})
	}
}

// policiesOf returns the YAML blocks of the page or section to which a link of the index leads.
func policiesOf(t *testing.T, link string) []string {
	t.Helper()
	_, index, _ := strings.Cut(page(t, "README.md"), "\n## Find a task\n")
	index, _, _ = strings.Cut(index, "\n## ")
	if !strings.Contains(index, "]("+link+")") {
		t.Fatalf(`docs/README.md has no link to %s under "Find a task"`, link)
	}
	name, anchor, _ := strings.Cut(link, "#")
	text := page(t, name)
	if anchor != "" {
		if text = section(text, anchor); text == "" {
			t.Fatalf("docs/%s has no heading for #%s", name, anchor)
		}
	}
	var policies []string
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		policies = append(policies, block[1])
	}
	if len(policies) == 0 {
		t.Fatalf("docs/%s has no policy", link)
	}
	return policies
}

// section returns the part of a page from the heading with an anchor to the next one of its level. It
// is empty if there is no such heading.
func section(text, anchor string) string {
	start, level := len(text), 0
	for _, h := range regexp.MustCompile(`(?m)^(##+) (.+)$`).FindAllStringSubmatchIndex(text, -1) {
		title := strings.ToLower(strings.ReplaceAll(text[h[4]:h[5]], " ", "-"))
		switch {
		case level == 0 && title == anchor:
			start, level = h[0], h[3]-h[2]
		case level > 0 && h[3]-h[2] <= level:
			return text[start:h[0]]
		}
	}
	return text[start:]
}

// page returns the text of a page of docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A call is a shell command of the model and a part of its result, as the model gets it.
type call struct{ command, result string }

// play runs the agent with one command after the other and checks the results.
func play(t *testing.T, g guarded, calls ...call) verify.Result {
	t.Helper()
	var steps []model.Step
	for _, c := range calls {
		steps = append(steps, model.Do(g.Shell(c.command)))
	}
	res := g.Run(t, "Do as planned.", append(steps, model.Answer("all done"))...)
	results := res.Requests.ToolResults()
	if len(results) != len(calls) {
		t.Fatalf("the model got %d results, want %d: %+v", len(results), len(calls), results)
	}
	for i, c := range calls {
		if !strings.Contains(results[i].Text, c.result) {
			t.Errorf("the model got for %q: %+v\nwant %q", c.command, results[i], c.result)
		}
	}
	if res.Answer != "all done" {
		t.Errorf("answer %q", res.Answer)
	}
	return res
}

// sh runs a shell line in the project, as the user does, and returns its output.
func sh(t *testing.T, g guarded, line string) string {
	t.Helper()
	out := g.Exec(t, "/bin/sh", "-ec", line)
	if out.Exit != 0 {
		t.Fatalf("%s: exit %d\n%s%s", line, out.Exit, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// fake writes a program into the project. Each call adds a line to ran.txt.
func fake(t *testing.T, g guarded, name string) {
	t.Helper()
	g.WriteFile(t, name, "#!/bin/sh\necho "+name+" \"$@\" >> ran.txt\n")
}

func blockCommand(t *testing.T, g guarded, _ []string) {
	const reason = "Force pushing rewrites shared history. Push a new branch instead."
	res := play(t, g,
		call{"$TASK || touch forced.txt", "This command line hides the command that it runs. Continue?"},
		call{"touch forced.txt && git push --force", reason},
		call{"touch forced.txt && sudo git -C . push -f origin main", reason},
		call{"echo free > free.txt", ""},
	)
	wantFile(t, res, "forced.txt", "")
	wantFile(t, res, "free.txt", "free\n")
}

func format(t *testing.T, g guarded, _ []string) {
	res := g.Run(t, "Do as planned.",
		model.Do(g.Write("main.go", "package main\nfunc main( ) {\nprintln( 1 )\n}\n")),
		model.Do(g.Write("notes.txt", "func main( ) {\n")),
		model.Do(g.Read("main.go")),
		model.Answer("all done"),
	)
	wantFile(t, res, "main.go", "package main\n\nfunc main() {\n\tprintln(1)\n}\n")
	wantFile(t, res, "notes.txt", "func main( ) {\n")
	if !res.Requests.Contains("println(1)") {
		t.Error("the agent does not read the formatted file")
	}
}

// testsFirst has a test that fails, and a model that corrects the code when it reads why.
func testsFirst(t *testing.T, g guarded, _ []string) {
	// Go compiles its packages once, and not again for the new home or while the agent waits.
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	g.WriteFile(t, filepath.Join(g.Home, ".config", "go", "env"), "GOTOOLCHAIN=local\nGOCACHE="+string(cache))
	g.WriteFile(t, "go.mod", "module example.com/sum\n")
	g.WriteFile(t, "sum.go", "package sum\n\nfunc Sum(a, b int) int { return a - b }\n")
	g.WriteFile(t, "sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Errorf(\"one and two is %d\", Sum(1, 2))\n\t}\n}\n")
	sh(t, g, "! go test ./...")
	res := g.Run(t, "Do as planned.",
		model.Answer("finished"),
		model.Do(g.Shell("sed -i 's/a - b/a + b/' sum.go")),
		model.Answer("really finished"),
	)
	main := res.Requests.MainRequests()
	if len(main) != 3 || main[:1].Contains("one and two is -1") || !main[1:2].Contains("one and two is -1") {
		t.Errorf("want the output of the failed test in the second of 3 requests:\n%s", main.Transcript())
	}
	if !strings.Contains(res.Files["sum.go"], "a + b") || res.Answer != "really finished" {
		t.Errorf("answer %q, with %q", res.Answer, res.Files["sum.go"])
	}
}

func contextAtStart(t *testing.T, g guarded, _ []string) {
	res := play(t, g, call{"echo free > free.txt", ""})
	if first := res.Requests.MainRequests()[:1]; !first.Contains("Use pnpm. Never edit files in vendor. Ask before you add a dependency.") {
		t.Errorf("the first request lacks the context:\n%s", first.Transcript())
	}
}

func notOnMain(t *testing.T, g guarded, _ []string) {
	sh(t, g, `git config --global user.name Ada; git config --global user.email ada@example.com
git init -q -b main . && git commit -q --allow-empty -m start
git init -q --bare ../remote.git && git remote add origin ../remote.git && git push -q -u origin main
git commit -q --allow-empty -m local`)
	const refs = "git --git-dir ../remote.git for-each-ref --format '%(refname:short) %(subject)'"
	if got := sh(t, g, refs); got != "main start\n" {
		t.Fatalf("the remote begins with %q", got)
	}
	const branchFirst, pushOwn = "Make a branch first.", "Push your own branch and open a pull request."
	play(t, g,
		call{"git push", pushOwn},
		call{"git commit --allow-empty -m agent", branchFirst},
		call{"mkdir sub && cd sub && git push origin HEAD:main", pushOwn},
		call{"git switch -q -c topic && git commit -q --allow-empty -m topic && git push -q origin topic", ""},
		call{"git push origin topic:main", pushOwn},
		call{"git worktree add -q ../wt -b wt && cd ../wt && git commit -q --allow-empty -m wt && git push -q -u origin wt", ""},
		call{"cd ../wt && git commit -q --allow-empty -m more && git push -q", ""},
	)
	if got, want := sh(t, g, refs), "main start\ntopic topic\nwt more\n"; got != want {
		t.Errorf("the remote has\n%s\nwant\n%s", got, want)
	}
	sh(t, g, "git switch -q main")
	res := g.Run(t, "Do as planned.", model.Do(g.Write("edited.txt", "x\n")), model.Answer("all done"))
	wantFile(t, res, "edited.txt", "")
}

// falseAlarm uses both cures: "grapnel allow --always", and the policy of the page. Codex refuses
// rm -rf on its own, so its reason shows that Grapnel does not.
func falseAlarm(t *testing.T, g guarded, policies []string) {
	if len(policies) != 2 || !strings.Contains(policies[1], "allow:") {
		t.Fatalf("want the policies before and after the change, not %q", policies)
	}
	const ofPack, ofOwn = "This deletes a part of the project.", "Use the development container."
	passed, gone := "", true
	if g.Agent.ID == agents.Codex.ID {
		passed, gone = "rm -f style commands are not permitted", false
	}
	fake(t, g, "docker")
	attempt := func(pack, own, ran string) {
		t.Helper()
		g.WriteFile(t, "reports/a.txt", "a\n")
		g.WriteFile(t, "src/a.txt", "a\n")
		res := play(t, g, call{"rm -rf src", ofPack}, call{"./docker run alpine:3 ls", own}, call{"rm -rf reports", pack})
		wantFile(t, res, "src/a.txt", "a\n")
		wantFile(t, res, "ran.txt", ran)
		if _, there := res.Files["reports/a.txt"]; there == (gone && pack == passed) {
			t.Errorf("reports exists: %v", there)
		}
	}
	attempt(ofPack, ofOwn, "")
	cmd := exec.CommandContext(t.Context(), filepath.Join(g.bin, "grapnel"), "allow", "--always", "--root", g.kit)
	cmd.Dir, cmd.Env = g.Project, append(g.Env(), "TERM=xterm-256color")
	term := display.Start(t, cmd, 120, 50)
	term.Want(t, "rm -rf reports", "make this rule?")
	term.Press(t, "y\r")
	if exit := term.Exit(t); exit != 0 {
		t.Fatalf("grapnel allow --always: exit %d\n%s", exit, term)
	}
	attempt(passed, ofOwn, "")
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), policies[0])
	attempt(ofPack, ofOwn, "")
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), policies[1])
	attempt(passed, "", "docker run alpine:3 ls\n")
}

// blocksToSlack has a server on loopback, as strict as Slack. The policy opens this network.
func blocksToSlack(t *testing.T, g guarded, policies []string) {
	const theirs = "https://hooks.slack.com/services/T000/B000/XXXX"
	if strings.Count(policies[0], theirs) != 1 {
		t.Fatalf("the policy does not contain %s:\n%s", theirs, policies[0])
	}
	var box webhooktest.Box
	slack := httptest.NewServer(box.Slack())
	t.Cleanup(slack.Close)
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), "networks: [127.0.0.0/8]\n"+strings.ReplaceAll(policies[0], theirs, slack.URL))
	g.WriteFile(t, "src/a.txt", "a\n")
	res := play(t, g, call{"echo free > free.txt", ""}, call{"rm -rf .", "This deletes the whole project"})
	wantFile(t, res, "src/a.txt", "a\n")
	await.Until(t, "the message arrives", func() bool { return len(box.Messages()) > 0 })
	g.grapnel(t, "drain") // whatever else waits arrives, too
	messages := box.Messages()
	if len(messages) != 1 || messages[0].Title != "Blocked: Bash in "+g.Agent.ID || !strings.Contains(messages[0].Text, "rm -rf .") {
		t.Errorf("Slack got %+v, want one message about the block", messages)
	}
}

func tenCalls(t *testing.T, g guarded, _ []string) {
	g.WriteFile(t, "Makefile", "deploy:\n\techo deployed >> deploys.txt\n")
	calls := slices.Repeat([]call{{"make deploy", ""}}, 10)
	calls = append(calls, slices.Repeat([]call{{"make deploy", `The limit "slowly" is reached: 10 in 1h.`}}, 2)...)
	wantFile(t, play(t, g, calls...), "deploys.txt", strings.Repeat("deployed\n", 10))
}

// No person can answer in a headless run. So the model reads the question, and nothing happens.
func askBeforeProduction(t *testing.T, g guarded, _ []string) {
	const question = "This changes production. Go on?"
	fake(t, g, "kubectl")
	res := play(t, g,
		call{"./kubectl apply -f x.yaml", question},
		call{"./kubectl get pods", ""},
		call{"mkdir -p deploy/prod && echo x > deploy/prod/a.yaml", question},
		call{"mkdir -p deploy/test && echo x > deploy/test/a.yaml", ""},
	)
	wantFile(t, res, "ran.txt", "kubectl get pods\n")
	wantFile(t, res, "deploy/prod/a.yaml", "")
	wantFile(t, res, "deploy/test/a.yaml", "x\n")
	if got := res.Requests.Contains("codex cannot ask for it"); got != (g.Agent.ID == agents.Codex.ID) {
		t.Errorf("the reason mentions that the agent cannot ask: %v", got)
	}
}

func maskSecrets(t *testing.T, g guarded, _ []string) {
	const secret = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
	g.WriteFile(t, "app.env", "GITHUB_TOKEN="+secret+"\nCOLOR=green\n")
	res := play(t, g, call{"cat app.env", "GITHUB_TOKEN=ghp_***\nCOLOR=green"})
	if found := res.Requests.Around(secret); found != "" {
		t.Errorf("the secret reached the model: %s", found)
	}
}
