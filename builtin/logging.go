package builtin

import (
	"context"
	"slices"
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// Logging is a hook that records a tag for each event and has no opinion: mini-claw's
// LoggingHook. The zero Logging is ready to use. It is safe for concurrent use.
type Logging struct {
	Write func(tag string) error // also called with each tag; its error is the hook's error; nil = not called

	mu   sync.Mutex
	tags []string
}

// maxTags is the maximum number of tags in a Logging. When it is reached, the older half is
// removed.
const maxTags = 10_000

// Handle records the tag of an event.
func (l *Logging) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	tag := tagOf(ev)
	l.mu.Lock()
	if len(l.tags) == maxTags {
		l.tags = slices.Delete(l.tags, 0, maxTags/2)
	}
	l.tags = append(l.tags, tag)
	l.mu.Unlock()
	if l.Write == nil {
		return grapnel.Outcome{}, nil
	}
	return grapnel.Outcome{}, l.Write(tag)
}

// Messages returns a copy of the recorded tags, oldest first.
func (l *Logging) Messages() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.tags...)
}

// tagOf returns pre:TOOL, post:TOOL, agent:start, agent:end, or the name of another event.
func tagOf(ev *grapnel.Event) string {
	tool := ""
	if ev.Tool != nil {
		tool = ev.Tool.Name
	}
	switch ev.Kind {
	case grapnel.ToolBefore:
		return "pre:" + tool
	case grapnel.ToolAfter:
		return "post:" + tool
	case grapnel.AgentBefore:
		return "agent:start"
	case grapnel.AgentAfter:
		return "agent:end"
	default:
		return string(ev.Kind)
	}
}

// Blocking returns a hook that blocks calls of these tools by their exact names: mini-claw's
// BlockingHook. It has no opinion about events other than tool.before.
func Blocking(tools []string, reason string) grapnel.Hook {
	return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Kind != grapnel.ToolBefore || ev.Tool == nil || !slices.Contains(tools, ev.Tool.Name) {
			return grapnel.Outcome{}, nil
		}
		return grapnel.Outcome{Decision: grapnel.Block, Reason: reason}, nil
	})
}
