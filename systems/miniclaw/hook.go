package miniclaw

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/process"
	"github.com/grapnel-dev/grapnel/systems/miniclaw/hookfile"
)

// A Hook answers events. It gets every event of its registry, must be safe for concurrent use, and
// must not change the arguments that it gets. There is no error: a hook that cannot decide returns
// Block or Continue. A hook that also has the method Name() string has this name in Records;
// otherwise its name there is its type.
type Hook interface {
	OnEvent(ctx context.Context, event Event) Action
}

// HookFunc adapts an ordinary function to a Hook.
type HookFunc func(ctx context.Context, event Event) Action

// OnEvent calls f.
func (f HookFunc) OnEvent(ctx context.Context, event Event) Action { return f(ctx, event) }

// A LoggingHook records a tag for each event and always continues. It is safe for concurrent use.
// [NewLoggingHook] creates one.
type LoggingHook struct{ log builtin.Logging }

// NewLoggingHook returns a LoggingHook without tags.
func NewLoggingHook() *LoggingHook { return &LoggingHook{} }

// OnEvent records pre:TOOL, post:TOOL, agent:start or agent:end.
func (l *LoggingHook) OnEvent(ctx context.Context, event Event) Action {
	_, _ = l.log.Handle(ctx, event.engineEvent()) // fails only if it writes to a file
	return Continue()
}

// Messages returns a copy of the recorded tags, oldest first. After 10,000 tags, the older half is
// removed.
func (l *LoggingHook) Messages() []string { return l.log.Messages() }

// A BlockingHook blocks calls of some tools. [NewBlockingHook] creates one.
type BlockingHook struct{ block grapnel.Hook }

// NewBlockingHook returns a hook that blocks calls of the tools with exactly these names, for the
// given reason. Upper and lower case differ.
func NewBlockingHook(tools []string, reason string) *BlockingHook {
	return &BlockingHook{builtin.Blocking(append([]string{}, tools...), reason)}
}

// OnEvent blocks a [PreToolCall] of a listed tool, and continues otherwise.
func (b *BlockingHook) OnEvent(ctx context.Context, event Event) Action {
	if out, _ := b.block.Handle(ctx, event.engineEvent()); out.Decision == grapnel.Block { // never fails
		return Block(out.Reason)
	}
	return Continue()
}

// A ShellHook runs a command line with "sh -c" before and after each tool call. Exit code 0
// continues. Every other end blocks with the command's standard error as the reason, after the call
// too, where the agent ignores it. The command gets nothing on standard input, its standard output
// is ignored, and it has no timeout: only the context of Dispatch ends it. It runs in the working
// directory of this process, and its variables HOOK_EVENT and HOOK_TOOL_NAME describe the event.
//
// [NewShellHook] creates one.
type ShellHook struct {
	command string
	glob    *string // nil = all tools
}

// NewShellHook returns a hook that runs the command line for all tools.
func NewShellHook(command string) *ShellHook { return &ShellHook{command: command} }

// ForTool returns a copy of the hook that runs only for tools whose whole name matches the glob. The
// glob may contain *, ?, [a-z] and [!a-z]. [HookRegistry.Register] returns an error for an invalid
// glob; in mini-claw-code it matches all tools.
func (s *ShellHook) ForTool(glob string) *ShellHook { return &ShellHook{s.command, &glob} }

// OnEvent answers as a registry with only this hook would.
func (s *ShellHook) OnEvent(ctx context.Context, event Event) Action {
	return NewHookRegistry().With(s).Dispatch(ctx, event)
}

// spec returns the hook for the engine, which runs the program.
func (s *ShellHook) spec() (grapnel.Spec, error) {
	if strings.TrimSpace(s.command) == "" {
		return grapnel.Spec{}, errors.New("the shell hook has no command")
	}
	d := dialect.Miniclaw()
	name := wording.Shorten(s.command, 80)
	dir, _ := os.Getwd() // without it, the program runs in the home directory
	spec := grapnel.Spec{
		Name: name, On: []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed}, OnError: d.OnError,
		Hook: &process.Command{Name: name, Line: s.command, Dialect: d, Vars: d.HookEnv, Dir: dir, Executor: process.System},
	}
	if s.glob != nil {
		tools, err := hookfile.Glob(*s.glob)
		if err != nil {
			return spec, fmt.Errorf("shell hook %q: %w", s.command, err)
		}
		spec.Match = tools
	}
	return spec, nil
}
