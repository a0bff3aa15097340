package hooktest

import (
	"fmt"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/sample"
)

// The events of this file are read by the dialects from what agents send, so that
// class, facts, input and payload are what a hook meets in reality. One thing is left
// out: what that agent can be told (Event.Can). A hook is judged by what the event
// permits; what becomes of its answer in one agent is shown by [Agent].
//
// The agent works in the directory in which the test runs, and that is its project:
// a path is relative to it. All of it is plain data, and a test may change it:
// ev.Session.CWD = t.TempDir().

// Shell is a call of a shell, about to be made.
func Shell(command string) *grapnel.Event { return Tool("Bash", object{"command": command}) }

// Read is a call that reads a file, about to be made.
func Read(path string) *grapnel.Event { return Tool("Read", object{"file_path": path}) }

// Write is a call that writes a file, about to be made.
func Write(path, content string) *grapnel.Event {
	return Tool("Write", object{"file_path": path, "content": content})
}

// Fetch is a call that gets a page, about to be made.
func Fetch(url string) *grapnel.Event {
	return Tool("WebFetch", object{"url": url, "prompt": "What does it say?"})
}

// Tool is a call of any tool, about to be made: by the name that Claude Code has for
// it, of a server's tool mcp__server__tool. The input is written as JSON.
func Tool(name string, input any) *grapnel.Event {
	return must(sample.Call(directory(), name, input))
}

// After is what follows the event of a call: the same call, made, with this output. An
// error as output means that the call has failed.
func After(call *grapnel.Event, output any) *grapnel.Event {
	if call.Tool == nil {
		panic(fmt.Sprintf("hooktest.After: %s is no call of a tool", call.Kind))
	}
	ev := must(sample.Made(directory(), call.Tool.CanonicalName(), call.Tool.ID, call.Tool.Input, output))
	ev.Session = call.Session
	return ev
}

// Prompt is what a person asks, before the model sees it.
func Prompt(text string) *grapnel.Event { return must(sample.Prompt(directory(), text)) }

// Event is an event of any kind with the parts that it has: a session that starts
// ([grapnel.SessionStart]), a turn that ends ([grapnel.AgentAfter]), an event that one
// agent alone has (native.claude-code.Setup). What is in the parts is made up. It
// panics where there is no such kind.
func Event(kind grapnel.Kind) *grapnel.Event { return must(sample.Event(directory(), kind)) }

// object is a JSON object in the making.
type object = sample.Object

func must(ev *grapnel.Event, err error) *grapnel.Event {
	if err != nil {
		panic("hooktest: " + err.Error())
	}
	return ev
}

// directory is where the test runs.
func directory() string {
	dir, err := os.Getwd()
	if err != nil {
		panic("hooktest: " + err.Error())
	}
	return dir
}
