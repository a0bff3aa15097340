package hooktest

import (
	"fmt"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/sample"
)

// The dialects read the events of this file from agent payloads, so that class, facts, input and
// payload are realistic. The events omit Terms.Can, the parts of a verdict that the agent supports.
// A hook is judged by the event's Contract; [Agent] shows the reply of one agent.
//
// The agent's working directory and project is the directory in which the test runs, and paths are
// relative to it. Events are plain data, and a test may change them: ev.Session.CWD = t.TempDir().

// Shell returns the event before a shell call with this command.
func Shell(command string) *grapnel.Event { return Tool("Bash", object{"command": command}) }

// Read returns the event before a call that reads a file.
func Read(path string) *grapnel.Event { return Tool("Read", object{"file_path": path}) }

// Write returns the event before a call that writes a file.
func Write(path, content string) *grapnel.Event {
	return Tool("Write", object{"file_path": path, "content": content})
}

// Fetch returns the event before a call that fetches a web page.
func Fetch(url string) *grapnel.Event {
	return Tool("WebFetch", object{"url": url, "prompt": "What does it say?"})
}

// Tool returns the event before a call of any tool. name is Claude Code's name for it; for a tool
// of an MCP server, mcp__server__tool. input is encoded as JSON. Tool panics if the event cannot be
// built.
func Tool(name string, input any) *grapnel.Event {
	return must(sample.Call(directory(), name, input))
}

// After returns the event that follows the event of a call: the call has run and returned this
// output. If output is an error, the call failed. After panics if the event is not a tool call.
func After(call *grapnel.Event, output any) *grapnel.Event {
	if call.Tool == nil {
		panic(fmt.Sprintf("hooktest.After: %s is not a tool call", call.Kind))
	}
	ev := must(sample.Made(directory(), call.Tool.CanonicalName(), call.Tool.ID, call.Tool.Input, output))
	ev.Session = call.Session
	return ev
}

// Prompt returns the event of a user prompt, before the model sees it.
func Prompt(text string) *grapnel.Event { return must(sample.Prompt(directory(), text)) }

// Event returns an event of any kind with all its parts: a session start ([grapnel.SessionStart]),
// the end of a turn ([grapnel.AgentAfter]), or an event of only one agent
// (native.claude-code.Setup). The content of the parts is made up. Event panics for an unknown
// kind.
func Event(kind grapnel.Kind) *grapnel.Event { return must(sample.Event(directory(), kind)) }

// object is a JSON object.
type object = sample.Object

func must(ev *grapnel.Event, err error) *grapnel.Event {
	if err != nil {
		panic("hooktest: " + err.Error())
	}
	return ev
}

// directory returns the working directory of the test.
func directory() string {
	dir, err := os.Getwd()
	if err != nil {
		panic("hooktest: " + err.Error())
	}
	return dir
}
