package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Step is what the model says in one of its turns: some text, some tool
// calls, or both. A step without calls ends the agent's turn.
type Step struct {
	Text   string `json:"text,omitempty"`
	Chunks int    `json:"chunks,omitempty"` // in how many pieces Text is streamed; 0 means one, which to Gemini CLI also has the calls
	Calls  []Call `json:"calls,omitempty"`
}

// A Call asks the agent to use one of its tools.
type Call struct {
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input,omitempty"`
	// Raw is the input of a tool that takes text in a language of its own instead
	// of an object. Only OpenAI Responses has such tools.
	Raw string `json:"raw,omitempty"`
}

// input is Input as the wire wants it: an object, even when empty.
func (c Call) input() map[string]any {
	if c.Input == nil {
		return map[string]any{}
	}
	return c.Input
}

// Do is the step that makes these calls, all in one answer.
func Do(calls ...Call) Step { return Step{Calls: calls} }

// Say is the step that answers with this text and ends the turn.
func Say(text string) Step { return Step{Text: text} }

const (
	planOpen  = "@@PLAN "
	planClose = " @@END"
)

// Prompt returns the prompt that makes the server play these steps: text,
// followed by the plan in a form that survives an agent's command line. The
// plan is part of the prompt that hooks and later requests see, so a marker
// whose arrival a test wants to show must not occur in it.
func Prompt(text string, steps ...Step) string {
	plan, err := rawjson.Marshal(steps)
	if err != nil { // only a value in Call.Input that is no JSON gets here
		panic(fmt.Sprintf("model: plan of prompt %q: %v", text, err))
	}
	return text + " " + planOpen + string(plan) + planClose
}

// parsePlan finds the plan hidden in a prompt. A plan may itself contain the
// prompt of a sub-agent with a plan of its own, so the end is where the JSON
// ends, not where the first closing word stands.
func parsePlan(text string) (steps []Step, ok bool) {
	_, rest, ok := strings.Cut(text, planOpen)
	if !ok {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(rest))
	if err := dec.Decode(&steps); err != nil {
		return nil, false
	}
	return steps, strings.HasPrefix(rest[dec.InputOffset():], planClose)
}

// due returns the index of the step to play next, given how many tool results
// and how many plain answers the conversation holds since the prompt. A step of
// several calls of which only some were answered counts as played: the agent
// came back, so the model goes on. len(plan) means the plan is used up.
func due(plan []Step, results, answers int) int {
	for i, step := range plan {
		played := &answers
		if len(step.Calls) > 0 {
			played = &results
		}
		if *played <= 0 {
			return i
		}
		*played -= max(1, len(step.Calls))
	}
	return len(plan)
}

// chunks cuts text into n pieces (fewer when it is short) at rune borders.
func chunks(text string, n int) []string {
	runes := []rune(text)
	n = max(1, min(n, len(runes)))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return out
}
