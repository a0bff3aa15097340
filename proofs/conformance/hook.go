package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
	ironclawfile "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
	miniclawfile "github.com/grapnel-dev/grapnel/systems/miniclaw/hookfile"
)

// A hookDef is a hook in the format of a case.
type hookDef struct {
	Name         string          `json:"name"`
	Kind         string          `json:"kind"`
	Points       []grapnel.Kind  `json:"points"`
	NativePoints []string        `json:"native_points"`
	Priority     *int            `json:"priority"`
	Matcher      *globDef        `json:"matcher"`
	FailureMode  string          `json:"failure_mode"`
	TimeoutMS    int             `json:"timeout_ms"`
	Timeout      int             `json:"timeout"` // in seconds
	Async        bool            `json:"async"`
	Source       string          `json:"source"`
	Command      string          `json:"command"` // of a func with a command; the func takes precedence
	Behaviour    json.RawMessage `json:"behaviour"`
}

type globDef struct {
	Glob string `json:"glob"`
}

// errMatcher is the error for a plan with an invalid matcher.
var errMatcher = errors.New("invalid matcher")

// spec returns the hook's Spec. The hook listens to the events in on, unless it names its own.
func (b *bench) spec(def *hookDef, on []grapnel.Kind) (grapnel.Spec, error) {
	s := grapnel.Spec{Name: def.Name, Source: grapnel.Source{Name: def.Source}, Priority: policyfile.SpecPriority(def.Priority)}
	fail := func(err error) (grapnel.Spec, error) { return s, fmt.Errorf("hook %q: %w", def.Name, err) }
	s.On = slices.Clone(def.Points)
	for _, native := range def.NativePoints {
		kind, err := b.family.kindOf(native)
		if err != nil {
			return fail(err)
		}
		if !slices.Contains(s.On, kind) {
			s.On = append(s.On, kind)
		}
	}
	if len(s.On) == 0 {
		s.On = on
	}
	if def.Matcher != nil {
		var err error
		if s.Match, err = miniclawfile.Glob(def.Matcher.Glob); err != nil { // only miniclaw has globs
			return fail(fmt.Errorf("%w: %w", errMatcher, err))
		}
	}
	s.Timeout = time.Duration(def.TimeoutMS)*time.Millisecond + time.Duration(def.Timeout)*time.Second
	switch def.FailureMode {
	case "":
	case "fail_open":
		s.OnError = grapnel.OnErrorOpen
	case "fail_closed":
		s.OnError = grapnel.OnErrorClosed
	default:
		return fail(fmt.Errorf("unknown failure_mode %q", def.FailureMode))
	}
	if def.Async {
		s.Phase = grapnel.PhaseObserve
	}
	if b.family.tune != nil {
		b.family.tune(def, &s)
	}
	w := &watched{bench: b, def: def}
	if err := w.make(&s); err != nil {
		return fail(err)
	}
	s.Hook = w
	return b.preset.Defaults(s), nil
}

// make builds the hook of the definition, by its kind.
func (w *watched) make(s *grapnel.Spec) error {
	switch w.def.Kind {
	case "func":
		var does behaviour
		if err := w.decode(&does); err != nil {
			return err
		}
		if err := does.check(); err != nil {
			return err
		}
		w.inner = func(*call) grapnel.Hook {
			return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) { return does.run(w.bench, ev) })
		}
	case "builtin":
		var does shippedHook
		if err := w.decode(&does); err != nil {
			return err
		}
		hook, err := does.hook(w.bench, w.def.Name)
		w.inner = func(*call) grapnel.Hook { return hook }
		return err
	case "rule":
		var rule ironclawfile.Rule
		if err := w.decode(&rule); err != nil {
			return err
		}
		hook, err := rule.Hook()
		w.inner = func(*call) grapnel.Hook { return hook }
		return err
	case "command":
		var does program
		if err := w.decode(&does); err != nil {
			return err
		}
		line, err := does.line(w.bench)
		if err != nil {
			return err
		}
		speaks, err := w.bench.family.speaks()
		if err != nil {
			return err
		}
		w.runs(&process.Command{Name: w.def.Name, Line: line, Vars: speaks.HookEnv, MaxOutput: w.bench.family.maxOutput, Executor: process.System}, speaks)
	case "webhook":
		return w.webhook(s)
	default:
		return fmt.Errorf("unknown hook kind %q", w.def.Kind)
	}
	return nil
}

func (w *watched) decode(into any) error {
	if w.def.Behaviour == nil {
		return nil
	}
	if err := strict(w.def.Behaviour, into); err != nil {
		return fmt.Errorf("behaviour: %w", err)
	}
	return nil
}

// runs makes the hook a program with the given dialect, and records the input and output of
// each call.
func (w *watched) runs(cmd *process.Command, speaks *dialect.Dialect) {
	w.grace = cmd.Grace()
	w.inner = func(c *call) grapnel.Hook {
		spoken := *speaks
		spoken.WriteEvent = func(ev *grapnel.Event) (wire []byte, err error) {
			c.wire, err = speaks.WriteEvent(ev)
			return c.wire, err
		}
		spoken.ReadOutcome = func(ev *grapnel.Event, out dialect.Output) (grapnel.Outcome, error) {
			c.output = &out
			return speaks.ReadOutcome(ev, out)
		}
		noted := *cmd
		noted.Dialect = &spoken
		return &noted
	}
}

// behaviour describes the action of a func hook.
type behaviour struct {
	Op      string          `json:"op"`
	Value   json.RawMessage `json:"value"`
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
	MS      int             `json:"ms"`
	Exit    int             `json:"exit"`
	Stderr  string          `json:"stderr"`
	Hook    *hookDef        `json:"hook"`
	Name    string          `json:"name"`
	Then    *behaviour      `json:"then"`
}

var ops = []string{
	"", "continue", "append", "set", "set_text", "merge", "block", "error", "panic", "sleep", "result", "register_other", "unregister_other",
}

// check returns an error for unknown words, before anything runs.
func (does *behaviour) check() error {
	if does == nil {
		return nil
	}
	if !slices.Contains(ops, does.Op) {
		return fmt.Errorf("unknown op %q", does.Op)
	}
	if does.Op == "register_other" && does.Hook == nil {
		return errors.New("register_other names no hook")
	}
	return does.Then.check()
}

func (does *behaviour) run(b *bench, ev *grapnel.Event) (grapnel.Outcome, error) {
	if does == nil {
		return grapnel.Outcome{}, nil
	}
	if err := unobtainable(does.Value); err != nil {
		return grapnel.Outcome{}, err
	}
	switch does.Op {
	case "append", "set", "set_text", "merge":
		return does.change(ev)
	case "block":
		return grapnel.Outcome{Decision: grapnel.Block, Reason: does.Reason}, nil
	case "error":
		return grapnel.Outcome{}, errors.New(does.Message)
	case "panic":
		panic(does.Message)
	case "sleep":
		time.Sleep(time.Duration(does.MS) * time.Millisecond)
	case "result": // a callback that answers like a program
		speaks, err := b.family.speaks()
		if err != nil {
			return grapnel.Outcome{}, err
		}
		return speaks.ReadOutcome(ev, dialect.Output{Exit: does.Exit, Stderr: []byte(does.Stderr)})
	case "register_other":
		if err := b.add([]hookDef{*does.Hook}, []grapnel.Kind{ev.Kind}); err != nil {
			return grapnel.Outcome{}, err
		}
	case "unregister_other":
		b.engine.Remove(func(s *grapnel.Spec) bool { return s.Name == does.Name })
	}
	return does.Then.run(b, ev)
}

// change replaces the event's primary field.
func (does *behaviour) change(ev *grapnel.Event) (grapnel.Outcome, error) {
	p := primaryOf(ev.Kind)
	now := p.value(ev)
	value := does.Value
	switch does.Op {
	case "append", "set_text":
		var text string
		if err := strict(does.Value, &text); err != nil {
			return grapnel.Outcome{}, err
		}
		if does.Op == "append" {
			text = p.text(now) + text
		}
		value = json.RawMessage(text) // for a tool's input, the text may be invalid JSON
		if p.field != grapnel.FieldInput {
			value = rawjson.Must(text)
		}
	case "merge":
		var members, more map[string]json.RawMessage
		if err := errors.Join(strict(now, &members), strict(does.Value, &more)); err != nil {
			return grapnel.Outcome{}, err
		}
		if members == nil { // the input is null
			members = more
		}
		maps.Copy(members, more)
		value = rawjson.Must(members)
	}
	return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{p.field: value}}, nil
}

// shippedHook is a hook that the system ships.
type shippedHook struct {
	Name   string   `json:"builtin"`
	Tools  []string `json:"tools"`
	Reason string   `json:"reason"`
}

func (does *shippedHook) hook(b *bench, name string) (grapnel.Hook, error) {
	switch does.Name {
	case "logging":
		log := &builtin.Logging{}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.logs[name] = log
		return log, nil
	case "blocking":
		return builtin.Blocking(does.Tools, does.Reason), nil
	default:
		return nil, fmt.Errorf("unknown builtin %q", does.Name)
	}
}

// program describes the actions of a command hook.
type program struct {
	Exit         int    `json:"exit"`
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	Signal       any    `json:"signal"`
	DelayMS      int    `json:"delay_ms"`
	DelayAfterMS int    `json:"delay_after_ms"`
	ReadStdin    *bool  `json:"read_stdin"`
	Command      string `json:"command"` // replaces all other members
}

// line returns the shell line of the program. Its output is prepared in files, so output of any
// size and with any byte works.
func (does *program) line(b *bench) (string, error) {
	if does.Command != "" {
		return does.Command, nil
	}
	var line []string
	if does.ReadStdin == nil || *does.ReadStdin {
		line = append(line, "cat >/dev/null")
	}
	sleep := func(ms int) {
		if ms > 0 {
			line = append(line, fmt.Sprintf("sleep %d.%03d", ms/1000, ms%1000))
		}
	}
	sleep(does.DelayMS)
	for _, out := range []struct{ text, to string }{{does.Stdout, ""}, {does.Stderr, " >&2"}} {
		if out.text == "" {
			continue
		}
		f, err := os.CreateTemp(b.scripts, "")
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(out.text)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		line = append(line, "cat "+quoted(f.Name())+out.to)
	}
	sleep(does.DelayAfterMS)
	if does.Signal != nil {
		line = append(line, fmt.Sprintf("kill -%s $$", strings.TrimPrefix(fmt.Sprint(does.Signal), "SIG")))
	}
	line = append(line, fmt.Sprintf("exit %d", does.Exit))
	return strings.Join(line, "; "), nil
}

// quoted quotes a word for the shell.
func quoted(path string) string {
	return "'" + strings.ReplaceAll(filepath.ToSlash(path), "'", `'\''`) + "'"
}
