package dialect

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// Each function below returns a copy of a Dialect. The caller may change it without affecting other
// callers. A change to a shared table could disable guards for the whole process. Compare dialects
// by their names.

// ClaudeCode returns the dialect of Claude Code.
func ClaudeCode() *Dialect { return claudeCode.clone() }

// GeminiCLI returns the dialect of Gemini CLI.
func GeminiCLI() *Dialect { return geminiCLI.clone() }

// Codex returns the dialect of the Codex CLI.
func Codex() *Dialect { return codex.clone() }

// QwenCode returns the dialect of Qwen Code.
func QwenCode() *Dialect { return qwenCode.clone() }

// FactoryDroid returns the dialect of Factory's Droid.
func FactoryDroid() *Dialect { return factoryDroid.clone() }

// Grok returns the dialect of Grok Build.
func Grok() *Dialect { return grok.clone() }

// OpenClaw returns the dialect of OpenClaw.
func OpenClaw() *Dialect { return openClaw.clone() }

// OpenCode returns the dialect of OpenCode.
func OpenCode() *Dialect { return openCode.clone() }

// Copilot returns the dialect of GitHub Copilot CLI.
func Copilot() *Dialect { return copilot.clone() }

// Cursor returns the dialect of Cursor.
func Cursor() *Dialect { return cursor.clone() }

// Crush returns the dialect of Crush.
func Crush() *Dialect { return crush.clone() }

// Cline returns the dialect of the Cline CLI.
func Cline() *Dialect { return cline.clone() }

// Windsurf returns the dialect of Windsurf's agent Cascade.
func Windsurf() *Dialect { return windsurf.clone() }

// KiroCLI returns the dialect of the Kiro CLI up to version 2.
func KiroCLI() *Dialect { return kiroCLI.clone() }

// Kiro returns the dialect of the Kiro IDE since 1.0, and of the Kiro CLI since 3.
func Kiro() *Dialect { return kiro.clone() }

// Antigravity returns the dialect of the Antigravity CLI.
func Antigravity() *Dialect { return antigravity.clone() }

// Plain returns Grapnel's own dialect: the Event, Outcome and Verdict as JSON, one object on one
// line each. Its schema is [PlainSchema].
func Plain() *Dialect { return plain.clone() }

// Flyto returns the dialect of hook programs that were written for a Flyto agent; see [FlytoEnv].
func Flyto() *Dialect { return flyto.clone() }

// Miniclaw returns the dialect of shell hooks that were written for mini-claw.
func Miniclaw() *Dialect { return miniclaw.clone() }

// Once returns the dialect of a worker that is started for one event, because no process stays
// alive. The worker reads the hello, the event and the end of its input at once. Its output when it
// ends is its answer.
func Once() *Dialect { return OnceOf(plain) }

// OnceOf is like [Once], for a worker whose events and answers are in the dialect d instead of the
// plain one.
func OnceOf(d *Dialect) *Dialect {
	return &Dialect{
		Name: d.Name, worker: d,
		WriteEvent:  func(ev *grapnel.Event) ([]byte, error) { return writeOnce(d, ev) },
		ReadOutcome: func(ev *grapnel.Event, out Output) (grapnel.Outcome, error) { return readOnce(d, ev, out) },
	}
}

// IsOnce reports whether d is a dialect of [Once] or [OnceOf], which has the name of the worker's
// dialect.
func (d *Dialect) IsOnce() bool { return d.worker != nil }

// OfWorker returns the dialect of a worker that keeps running, if d is the dialect of the same
// worker for one event; otherwise d.
func (d *Dialect) OfWorker() *Dialect {
	if d.IsOnce() {
		return d.worker
	}
	return d
}

// All returns the dialects of all agents, in the order in which [Detect] tries them on a payload of
// an unknown agent.
func All() []*Dialect { return cloneAll(dialects) }

// HookOnly returns the dialects that only hook programs use. No known agent fires events in them.
func HookOnly() []*Dialect { return cloneAll(hookOnly) }

// IronClawEvents returns the events of IronClaw, with the names that its bundles and webhooks use.
// IronClaw runs hooks in its own process, so it has no protocol for hook programs and no Dialect.
func IronClawEvents() []EventRow { return cloneRows(ironClawEvents) }

// ContractOf returns the Contract of an event, including native events for which a dialect defines
// a Contract. It returns false for other native and unknown events.
func ContractOf(kind grapnel.Kind) (grapnel.Contract, bool) {
	if c, ok := grapnel.ContractOf(kind); ok {
		return c, true
	}
	for _, d := range dialects {
		for i := range d.Events {
			if row := &d.Events[i]; row.Kind == kind && row.Contract != nil {
				return *cloneContract(row.Contract), true
			}
		}
	}
	return grapnel.Contract{}, false
}

func cloneAll(dialects []*Dialect) []*Dialect {
	all := make([]*Dialect, len(dialects))
	for i, d := range dialects {
		all[i] = d.clone()
	}
	return all
}

func (d *Dialect) clone() *Dialect {
	own := *d
	own.Aliases, own.Folds = slices.Clone(d.Aliases), slices.Clone(d.Folds)
	own.Events = cloneRows(d.Events)
	own.Tools = slices.Clone(d.Tools)
	for i := range own.Tools {
		t := &own.Tools[i]
		t.Facts, t.Members, t.Takes = slices.Clone(t.Facts), slices.Clone(t.Members), slices.Clone(t.Takes)
	}
	if slices.Contains(dialects, d) { // the others, which only hook programs use, read no agent's events
		d.tabled(&own)
	}
	return &own
}

func cloneRows(rows []EventRow) []EventRow {
	own := slices.Clone(rows)
	for i := range own {
		r := &own[i]
		r.Can, r.Contract = *cloneCan(&r.Can), cloneContract(r.Contract)
	}
	return own
}

func cloneCan(c *grapnel.Can) *grapnel.Can {
	own := *c
	own.Change, own.Members = slices.Clone(c.Change), slices.Clone(c.Members)
	return &own
}

func cloneContract(c *grapnel.Contract) *grapnel.Contract {
	if c == nil {
		return nil
	}
	own := *c
	own.Changes = slices.Clone(c.Changes)
	return &own
}

func (s *Setup) clone() *Setup {
	own := *s
	own.Tops, own.Files, own.Over, own.Unseen = slices.Clone(s.Tops), slices.Clone(s.Files), slices.Clone(s.Over), slices.Clone(s.Unseen)
	own.Processes = slices.Clone(s.Processes)
	own.Edits, own.Off = slices.Clone(s.Edits), slices.Clone(s.Off)
	own.Todo, own.TodoProject = slices.Clone(s.Todo), slices.Clone(s.TodoProject)
	return &own
}
