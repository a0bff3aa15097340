package policytest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// survivors returns one line, with an example, for each change that no test noticed.
func survivors(m *policytest.Mutation) string {
	var lines []string
	for _, p := range m.Policies {
		for _, mu := range p.Mutants {
			if mu.Status == policytest.Survived {
				lines = append(lines, fmt.Sprintf("%d:%d %s: %s <- %s", mu.Line, mu.Col, mu.Hook, mu.What, mu.Test))
			}
		}
	}
	return strings.Join(lines, "\n")
}

const mutatePolicy = `
version: 1
hooks:
  - name: no-force
    on: tool.before
    match: {command: [git push --force, git push -f, git reset --hard]}
    except: {command: git push --force origin mine}
    block: no
  - name: slowly
    on: tool.before
    match: {tool: fetch}
    limit: {count: 2, per: 1m, by: session}
  - name: hide
    on: prompt.before
    replace: [{pattern: 'sk-[a-z]+', with: sk}, {pattern: 'pk-[a-z]+', with: pk}]
`

func TestMutate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ tests, survivors string }{
		"weak": {`
  - {command: git push -f, want: block}
  - {prompt: my sk-abc, want: {changes: {prompt: my sk}}}`, `
5:54 no-force: "git reset --hard" is dropped <- - {command: git reset --hard, want: {decision: block, rule: no-force}}
5:13 no-force: the match is dropped <- - {command: "true", want: {not: {rule: no-force}}}
6:14 no-force: the exception is dropped <- - {command: git push --force origin mine, want: {not: {rule: no-force}}}
8:5 slowly: the hook is taken away <- an event that matches the hook, and want: {rule: slowly}
10:13 slowly: the match is dropped <- an event that only match excludes, and want: {not: {rule: slowly}}
11:20 slowly: it lets 3 through <- events, with ` + "`before:`" + `, for which limit.count makes a difference, and want: {rule: slowly}
11:28 slowly: it counts for 2m <- the event with ` + "`later: 1m` after the events of `before:`" + `, and want: {not: {rule: slowly}}
11:28 slowly: it counts for 30s <- the event with ` + "`later: 59s` after the events of `before:`" + `, and want: {rule: slowly}
11:36 slowly: it does not count by session <- events, with ` + "`before:`" + `, for which limit.by[0] makes a difference, and want: {not: {rule: slowly}}
11:13 slowly: it asks instead of blocking <- events, with ` + "`before:`" + `, for which limit.then makes a difference, and want: {rule: slowly}
14:50 hide: "pk-[a-z]+" is not replaced <- - {prompt: pk-a, want: {rule: hide}}`},
		"strong": {`
  - {command: git push -f, want: block}
  - {command: git reset --hard, want: block}
  - {command: git push --force origin mine, want: none}
  - {command: ls, want: none}
  - {url: "https://a.com", before: [{url: "https://a.com"}, {url: "https://a.com"}], want: block}
  - {url: "https://a.com", before: [{url: "https://a.com"}], want: none}
  - {url: "https://a.com", before: [{url: "https://a.com"}, {url: "https://a.com"}], later: 59s, want: block}
  - {url: "https://a.com", before: [{url: "https://a.com"}, {url: "https://a.com"}], later: 1m, want: none}
  - {command: ls, before: [{command: ls}, {command: ls}], want: none}
  - {prompt: my sk-abc, want: {changes: {prompt: my sk}}}
  - {prompt: my pk-abc, want: {changes: {prompt: my pk}}}`, `
11:36 slowly: it does not count by session <- events, with ` + "`before:`" + `, for which limit.by[0] makes a difference, and want: {not: {rule: slowly}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			m, err := policytest.Mutate(t.Context(), tested(t, mutatePolicy, "version: 1\ntests: "+tt.tests+"\n"), nil, func(done, all int) {
				if steps++; done != steps || done > all {
					t.Errorf("step %d is %d of %d", steps, done, all)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.survivors, "\n"), survivors(m)); diff != "" {
				t.Error(diff)
			}
			if m.Killed+m.Survived+m.Same != steps || m.Same != 2 {
				t.Errorf("%d killed, %d survived, %d the same, of %d", m.Killed, m.Survived, m.Same, steps)
			}
		})
	}
}

// If an example is added to the test file, it notices the change that no other test noticed.
func TestMutateExamples(t *testing.T) {
	t.Parallel()
	const policy = `
version: 1
hooks:
  - name: prod
    on: [tool.before, tool.after]
    match: {tool: [write, edit], path: ["deploy/prod/**", "**/*.{tf,hcl}"], not: {content: "/# (safe|checked)/"}}
    except: [{path: deploy/prod/README.md, mode: plan}]
    block: no
  - name: hosts
    on: tool.before
    match: {host: ["*.internal", "/^10[.]/"]}
    ask: really?
  - name: told
    on: prompt.before
    when: session.mode == "plan" and len(prompt) > 3
    context: only plan
`
	tests := "version: 1\ntests:\n  - {command: ls, want: none}\n"
	last := -1
	for {
		m, err := policytest.Mutate(t.Context(), tested(t, policy, tests), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", tests, err)
		}
		if last >= 0 && m.Survived >= last {
			t.Fatalf("%s: %d survive, and %d did before", tests, m.Survived, last)
		}
		last = m.Survived
		added := false
		for _, mu := range m.Policies[0].Mutants {
			if mu.Status == policytest.Survived && strings.HasPrefix(mu.Test, "- ") && !strings.Contains(tests, mu.Test) {
				tests += "  " + mu.Test + "\n"
				added = true
				break
			}
		}
		if !added {
			if m.Score() < 85 {
				t.Errorf("%s: the score is %.0f with all examples written down; left are\n%s", tests, m.Score(), survivors(m))
			}
			return
		}
	}
}

func TestMutateWants(t *testing.T) {
	t.Parallel()
	_, err := policytest.Mutate(t.Context(), tested(t, mutatePolicy, "version: 1\ntests: [{command: ls, want: block}]\n"), nil, nil)
	if !errors.Is(err, policytest.ErrNotPassed) || !strings.Contains(err.Error(), "p_test.yaml:2: ls does not pass with the unchanged policy: decision: got none, want block") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := policytest.Mutate(ctx, tested(t, mutatePolicy, "version: 1\ntests: [{command: ls, want: none}]\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("%v", err)
	}
}
