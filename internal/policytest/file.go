package policytest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A File is a test file.
type File struct {
	Path     string            `json:"path"`
	Policy   string            `json:"policy,omitempty"` // the policy file under test; empty = Pack
	Pack     string            `json:"pack,omitempty"`   // a built-in pack
	Scope    grapnel.Scope     `json:"scope"`
	Agents   []string          `json:"agents,omitempty"` // for tests that name none
	CWD      string            `json:"cwd,omitempty"`
	Programs map[string]Answer `json:"programs,omitempty"`
	Tests    []*Test           `json:"tests"`
}

// A Test is one test of a File, or one row of its table.
type Test struct {
	File *File  `json:"-"`
	Name string `json:"name"`
	Line int    `json:"line"`
	Col  int    `json:"col"`

	Skip     string            `json:"skip,omitempty"`   // the reason for skipping it; empty = it runs
	Agents   []string          `json:"agents,omitempty"` // agents in which it must pass; empty = see [Test.In]
	CWD      string            `json:"cwd,omitempty"`    // the agent's working directory; empty = the directory of the file
	Files    []Seed            `json:"files,omitempty"`  // the agent's project; none = the existing files at CWD
	Programs map[string]Answer `json:"programs,omitempty"`
	Before   []Event           `json:"before,omitempty"` // earlier events of the same session, oldest first
	Event    Event             `json:"event"`
	Want     Want              `json:"want"`
}

// A Seed is a file in the project of one test.
type Seed struct {
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Name string `json:"name"`           // path in the project, with slashes
	Text string `json:"text,omitempty"` // the content
	From string `json:"from,omitempty"` // or a file or directory to copy
}

// An Answer replaces the answer of a program or a server that the test does not run.
type Answer struct {
	Line    int             `json:"line,omitempty"`
	Col     int             `json:"col,omitempty"`
	Outcome grapnel.Outcome `json:"outcome,omitzero"`

	Output  *Output `json:"output,omitempty"` // the program's output; nil = use Outcome
	Error   string  `json:"error,omitempty"`  // the error of the hook
	Timeout bool    `json:"timeout,omitempty"`
}

// Output is the output of a program.
type Output struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// An Event is an event in a test. It is one of: a tool call; a prompt; an event of any kind in
// the plain dialect; a payload of an agent in the agent's format.
type Event struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`

	Tool    string          `json:"tool,omitempty"` // a class, or a tool name of Claude Code
	Command *string         `json:"command,omitempty"`
	Path    *string         `json:"path,omitempty"`
	Content *string         `json:"content,omitempty"`
	URL     *string         `json:"url,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`  // other arguments of the tool
	Output  json.RawMessage `json:"output,omitempty"` // the result of the call; nil = the call has not run yet
	Error   *string         `json:"error,omitempty"`  // the error of the call, which has run

	Prompt *string `json:"prompt,omitempty"`

	Plain json.RawMessage `json:"plain,omitempty"` // an event of the plain dialect; missing values are filled in

	Payload json.RawMessage `json:"payload,omitempty"`
	Agent   string          `json:"agent,omitempty"` // the agent that sent the payload; empty = detected
	Native  string          `json:"native,omitempty"`

	Later policyfile.Duration `json:"later,omitempty"` // the time since the previous event

	Mode     string `json:"mode,omitempty"`     // for a call and a prompt: the agent's permission mode
	Subagent string `json:"subagent,omitempty"` // for a call and a prompt: the type of the active sub-agent
}

// Want lists the expected results of an event. Results that it omits are not checked, with one
// exception: a test fails if a hook fails that Want does not name.
type Want struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`

	Decision    []grapnel.Decision                `json:"decision,omitempty"` // any of these; none alone also means no change, no context and no halt
	Reason      *Text                             `json:"reason,omitempty"`
	Rule        []policyfile.Word                 `json:"rule,omitempty"` // one of these hooks contributed to the result
	Changes     map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`
	Context     []Text                            `json:"context,omitempty"` // each is in the added context
	Message     []Text                            `json:"message,omitempty"` // each is in the messages to the user
	Halt        *Text                             `json:"halt,omitempty"`
	Unsupported []Text                            `json:"unsupported,omitempty"` // each is in the unsupported parts of the verdict
	Would       []grapnel.Decision                `json:"would,omitempty"`       // the would-block decision of hooks in observe mode
	Failed      []policyfile.Word                 `json:"failed,omitempty"`      // the hooks that fail, and no others
	Not         *Want                             `json:"not,omitempty"`         // none of these results
	Replies     map[string]Reply                  `json:"replies,omitempty"`     // by agent; "" is for every agent
}

// Reply is the reply that an agent gets.
type Reply struct {
	Stdout *Text `json:"stdout,omitempty"`
	Stderr *Text `json:"stderr,omitempty"`
	Exit   *int  `json:"exit,omitempty"`
}

// Text is an expected text.
type Text struct {
	Text  string `json:"text"`            // a part of the text
	Whole bool   `json:"whole,omitempty"` // the whole text, except for the last line end

	re *regexp.Regexp // for /RE2/
}

// in reports whether a text matches. For a part of a text all white space is equal, because a
// policy and its test may wrap a reason differently.
func (t *Text) in(text string) bool {
	switch {
	case t.re != nil:
		return t.re.MatchString(text)
	case t.Whole:
		return strings.TrimRight(text, "\r\n") == strings.TrimRight(t.Text, "\r\n")
	}
	return strings.Contains(text, t.Text) || strings.Contains(inWords(text), inWords(t.Text))
}

func inWords(text string) string { return strings.Join(strings.Fields(text), " ") }

// In returns the agents in which a test runs, limited to the agents in only if there are any.
func (t *Test) In(only ...string) []string {
	agents := t.agents()
	if len(only) == 0 {
		return agents
	}
	return slices.DeleteFunc(slices.Clone(agents), func(agent string) bool { return !slices.Contains(only, agent) })
}

func (t *Test) agents() []string {
	switch {
	case len(t.Agents) > 0:
		return t.Agents
	case t.Event.Payload != nil:
		return []string{t.Event.payloadDialect().Name}
	case len(t.File.Agents) > 0:
		return t.File.Agents
	}
	return []string{t.Event.usual()}
}
