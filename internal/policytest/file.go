package policytest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A File is a file of tests.
type File struct {
	Path     string            `json:"path"`
	Policy   string            `json:"policy,omitempty"` // the file that it tests; empty = Pack
	Pack     string            `json:"pack,omitempty"`   // a pack that is shipped
	Scope    grapnel.Scope     `json:"scope"`
	Agents   []string          `json:"agents,omitempty"` // of tests that name none
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

	Skip     string            `json:"skip,omitempty"`   // why it is not run; empty = it is
	Agents   []string          `json:"agents,omitempty"` // it holds in each; empty = see [Test.In]
	CWD      string            `json:"cwd,omitempty"`    // where the agent works; empty = the directory of the file
	Files    []Seed            `json:"files,omitempty"`  // the project that the agent works in; none = what is at CWD
	Programs map[string]Answer `json:"programs,omitempty"`
	Before   []Event           `json:"before,omitempty"` // events of the same session, oldest first
	Event    Event             `json:"event"`
	Want     Want              `json:"want"`
}

// A Seed is a file of the project of one test.
type Seed struct {
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Name string `json:"name"`           // below the project, with slashes
	Text string `json:"text,omitempty"` // what is in it
	From string `json:"from,omitempty"` // or the file, or the directory, of which it is a copy
}

// An Answer is what a program, or a server, says in a test that does not run it.
type Answer struct {
	Line    int             `json:"line,omitempty"`
	Col     int             `json:"col,omitempty"`
	Outcome grapnel.Outcome `json:"outcome,omitzero"`

	Output  *Output `json:"output,omitempty"` // what the program leaves, in its own words; nil = Outcome counts
	Error   string  `json:"error,omitempty"`  // why it cannot answer
	Timeout bool    `json:"timeout,omitempty"`
}

// Output is what a program leaves.
type Output struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// An Event is an event as a test says it. It is one of these: a call of a tool; a prompt;
// an event of any kind in the plain dialect; a payload, in the words of the agent that
// sent it.
type Event struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`

	Tool    string          `json:"tool,omitempty"` // a class, or a name in Claude Code's language
	Command *string         `json:"command,omitempty"`
	Path    *string         `json:"path,omitempty"`
	Content *string         `json:"content,omitempty"`
	URL     *string         `json:"url,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`  // the rest of what the tool is given
	Output  json.RawMessage `json:"output,omitempty"` // the call was made; nil = it is about to be
	Error   *string         `json:"error,omitempty"`  // the call was made, and failed

	Prompt *string `json:"prompt,omitempty"`

	Plain json.RawMessage `json:"plain,omitempty"` // an event of the plain dialect; what it lacks is made up

	Payload json.RawMessage `json:"payload,omitempty"`
	Agent   string          `json:"agent,omitempty"` // whose payload it is; empty = it tells
	Native  string          `json:"native,omitempty"`

	Later policyfile.Duration `json:"later,omitempty"` // than the event before it

	Mode     string `json:"mode,omitempty"`     // of a call and a prompt: the agent's permission mode
	Subagent string `json:"subagent,omitempty"` // likewise: the type of the sub-agent that is at work
}

// Want is what shall come of an event. What it does not speak of is not looked at, but
// for hooks that could not answer: no test passes where one did that it does not name.
type Want struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`

	Decision    []grapnel.Decision                `json:"decision,omitempty"` // any of these; none alone also means no change, no context and no halt
	Reason      *Text                             `json:"reason,omitempty"`
	Rule        []policyfile.Word                 `json:"rule,omitempty"` // any of these had a part in what came of it
	Changes     map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`
	Context     []Text                            `json:"context,omitempty"` // each is in what is added
	Message     []Text                            `json:"message,omitempty"` // each is in what the person is told
	Halt        *Text                             `json:"halt,omitempty"`
	Unsupported []Text                            `json:"unsupported,omitempty"` // each is in what the agent cannot be told
	Would       []grapnel.Decision                `json:"would,omitempty"`       // what observing hooks would have decided
	Failed      []policyfile.Word                 `json:"failed,omitempty"`      // the hooks that could not answer, and no others
	Not         *Want                             `json:"not,omitempty"`         // nothing of this holds
	Replies     map[string]Reply                  `json:"replies,omitempty"`     // by agent; under "" that of every agent
}

// Reply is what an agent gets.
type Reply struct {
	Stdout *Text `json:"stdout,omitempty"`
	Stderr *Text `json:"stderr,omitempty"`
	Exit   *int  `json:"exit,omitempty"`
}

// Text is a text that is wanted.
type Text struct {
	Text  string `json:"text"`            // a part of it
	Whole bool   `json:"whole,omitempty"` // all of it, but for the end of the last line

	re *regexp.Regexp // of /RE2/
}

// in reports whether a text is what is wanted. Where a line ends makes no difference: a
// policy and its test may break a reason at different places.
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

// In lists the agents in which a test is run: of some agents only, where there are any.
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
		return []string{t.Event.teller().Name}
	case len(t.File.Agents) > 0:
		return t.File.Agents
	}
	return []string{t.Event.usual()}
}
