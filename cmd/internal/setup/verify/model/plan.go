package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Step is the content of one turn of the model: text, tool calls, or both. A step without calls
// ends the agent's turn.
type Step struct {
	Text   string `json:"text,omitempty"`
	Chunks int    `json:"chunks,omitempty"` // number of pieces in which Text is streamed; 0 means one, which for Gemini CLI also contains the calls
	Calls  []Call `json:"calls,omitempty"`
}

// A Call asks the agent to use one of its tools.
type Call struct {
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input,omitempty"`
	// Raw is the input of a tool that takes text instead of an object. Only OpenAI Responses has
	// such tools.
	Raw string `json:"raw,omitempty"`
}

// input returns Input as an object, even when it is empty, as the protocols require.
func (c Call) input() map[string]any {
	if c.Input == nil {
		return map[string]any{}
	}
	return c.Input
}

// Do returns the step that makes these calls, all in one answer.
func Do(calls ...Call) Step { return Step{Calls: calls} }

// Answer returns the step that answers with this text and ends the turn.
func Answer(text string) Step { return Step{Text: text} }

const (
	planOpen  = "@@PLAN "
	planClose = " @@END"
)

// Prompt returns the prompt that makes the server play these steps: text, followed by the plan in a
// form that survives an agent's command line. Hooks and later requests see the plan as part of the
// prompt. So a marker must not occur in the plan if a test checks whether it arrives.
func Prompt(text string, steps ...Step) string {
	plan, err := rawjson.Marshal(steps)
	if err != nil { // only a value in Call.Input that cannot be encoded causes an error
		panic(fmt.Sprintf("model: plan of prompt %q: %v", text, err))
	}
	return text + " " + planOpen + string(plan) + planClose
}

// parsePlan finds the plan in a prompt. A plan may contain the prompt of a sub-agent with another
// plan, so the plan ends at the end of its JSON, not at the first closing word.
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

// due returns the index of the next step, given the number of tool results and of plain answers in
// the conversation since the prompt. A step with several calls is complete even if only some calls
// have results, because the agent has sent a new request. len(plan) means that the plan is used up.
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

// chunks splits text into n pieces, or fewer if it is short, between runes.
func chunks(text string, n int) []string {
	runes := []rune(text)
	n = max(1, min(n, len(runes)))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return out
}
