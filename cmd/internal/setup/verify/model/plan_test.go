package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromptCarriesThePlan(t *testing.T) {
	t.Parallel()
	inner := Prompt("You are the helper.", Do(Call{Tool: "inner"}), Answer("inner done"))
	for name, plan := range map[string][]Step{
		"one answer":       {Answer("done")},
		"several calls":    {Do(Call{Tool: "a", Input: map[string]any{"x": "1"}}, Call{Tool: "b"}), Answer("done")},
		"odd characters":   {Do(Call{Tool: "sh", Input: map[string]any{"command": "echo '<&>' \"\\n\" @@END @@PLAN é"}})},
		"a plan in a plan": {Do(Call{Tool: "task", Input: map[string]any{"prompt": inner}}), Answer("outer done")},
		"no step":          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := parsePlan("<context>\n</context>\n" + Prompt("Go on.", plan...) + "\nmore")
			if !ok {
				t.Fatal("no plan found")
			}
			if diff := cmp.Diff(plan, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoPlan(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"Go on.",
		"@@PLAN",
		"@@PLAN {} @@END",
		`@@PLAN [{"text":"cut`,
		`@@PLAN [{"text":"without an end"}]`,
	} {
		if got, ok := parsePlan(text); ok {
			t.Errorf("parsePlan(%q) = %v, want none", text, got)
		}
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	one, two := Do(Call{}), Do(Call{}, Call{})
	for name, tc := range map[string]struct {
		plan             []Step
		results, answers int
		want             int
	}{
		"start":                               {plan: []Step{one, two, Answer("x")}, want: 0},
		"one call answered":                   {plan: []Step{one, two, Answer("x")}, results: 1, want: 1},
		"some of several calls answered":      {plan: []Step{one, two, Answer("x")}, results: 2, want: 2},
		"all of several calls answered":       {plan: []Step{one, two, Answer("x")}, results: 3, want: 2},
		"the answer given":                    {plan: []Step{one, Answer("x")}, results: 1, answers: 1, want: 2},
		"made to go on":                       {plan: []Step{one, Answer("x"), two, Answer("y")}, results: 1, answers: 1, want: 2},
		"made to go on, and done":             {plan: []Step{one, Answer("x"), two, Answer("y")}, results: 3, answers: 1, want: 3},
		"more than was planned":               {plan: []Step{one}, results: 5, answers: 5, want: 1},
		"text beside a call is not an answer": {plan: []Step{{Text: "x", Calls: one.Calls}, Answer("y")}, answers: 1, want: 0},
		"no plan":                             {want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := due(tc.plan, tc.results, tc.answers); got != tc.want {
				t.Errorf("due(%+v, %d, %d) = %d, want %d", tc.plan, tc.results, tc.answers, got, tc.want)
			}
		})
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "日本語", "all of it is done"} {
		for n := range 6 {
			got := chunks(text, n)
			if strings.Join(got, "") != text {
				t.Errorf("chunks(%q, %d) = %q, which is another text", text, n, got)
			}
			if want := max(1, min(n, len([]rune(text)))); len(got) != want {
				t.Errorf("chunks(%q, %d) = %q, want %d pieces", text, n, got, want)
			}
			if len(got) > 1 && slices.Contains(got, "") {
				t.Errorf("chunks(%q, %d) = %q, want no empty piece", text, n, got)
			}
		}
	}
}
