package hooks

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

const (
	// DefaultTimeout is the timeout in seconds of a HookDef that sets none.
	DefaultTimeout = 30
	// ExitCodeBlock is the exit code of a hook that blocks on purpose.
	ExitCodeBlock = 2
)

// A HookType names the moment in which a hook runs. Only the constants of this package, and
// post_compact, can be registered.
type HookType string

// The types of hooks.
const (
	HookPreToolUse         HookType = "pre_tool_use"
	HookPostToolUse        HookType = "post_tool_use"
	HookPostToolUseFailure HookType = "post_tool_use_failure"
	HookSessionStart       HookType = "session_start"
	HookSessionEnd         HookType = "session_end"
	HookPermission         HookType = "permission_request"
	HookPermissionDenied   HookType = "permission_denied"
	HookStop               HookType = "stop"
	HookNotification       HookType = "notification"
	HookConfigChange       HookType = "config_change"
	HookTaskCreated        HookType = "task_created"
	HookTaskCompleted      HookType = "task_completed"
	HookPreSampling        HookType = "pre_sampling"
	HookPostSampling       HookType = "post_sampling"
)

// flyto is the dialect that reads the answers of all hooks and names their variables.
var flyto = dialect.Flyto()

// A HookDef defines one hook.
type HookDef struct {
	Command    string      `json:"command,omitempty"`     // a shell line; not used if Handler is set
	Handler    HookHandler `json:"-"`                     // Go code; has precedence over Command
	WebhookURL string      `json:"webhook_url,omitempty"` // planned by Flyto; nothing is sent
	Timeout    int         `json:"timeout,omitempty"`     // in seconds; 0 or less = DefaultTimeout
	Async      bool        `json:"async,omitempty"`       // the caller does not wait for the hook, and it decides nothing
	Source     string      `json:"source,omitempty"`      // name of the plugin that registered the hook; empty = global

	// PluginDir is the directory of the plugin that the hook is a part of; empty = the hook is the
	// user's own. Such a hook gets it as FLYTO_PLUGIN_ROOT. Its program inherits only PATH, HOME,
	// LANG, LC_* and TMPDIR, so it cannot read API keys.
	PluginDir string `json:"plugin_dir,omitempty"`
}

// EffectiveTimeout returns the timeout of the hook, which is never 0.
func (d HookDef) EffectiveTimeout() time.Duration {
	if d.Timeout <= 0 {
		return DefaultTimeout * time.Second
	}
	return time.Duration(min(int64(d.Timeout), math.MaxInt64/int64(time.Second))) * time.Second
}

// A Config is the initial content of a Manager. Its JSON has the lists of hooks by type, under the
// member hooks.
type Config struct {
	Hooks    map[HookType][]HookDef `json:"hooks"`              // in the order in which they run
	Disabled bool                   `json:"disabled,omitempty"` // start with all hooks switched off; see Manager.Enable
}

// A HookResult is the result of one hook. In JSON, Duration is in nanoseconds and Error is its text.
type HookResult struct {
	Command    string         `json:"command"` // the shell line; without one, or if a handler returned no result, the name in Records
	Stdout     string         `json:"stdout"`
	Stderr     string         `json:"stderr"`
	ExitCode   int            `json:"exit_code"`             // -1 = the hook did not start, or did not end by itself
	JSONOutput map[string]any `json:"json_output,omitempty"` // the object on Stdout, with numbers as float64; nil = Stdout is anything else
	Duration   time.Duration  `json:"duration"`

	// Error is the reason why the hook has no usable answer: it did not start, a signal ended it, it
	// panicked, its JSON was cut, or it exceeded its timeout, which is grapnel.ErrTimeout. An exit code alone is
	// not an Error.
	Error error `json:"-"`
}

// Success reports whether the hook ended with exit code 0 and without an Error. A block is not a
// success. A nil result is not one either.
func (r *HookResult) Success() bool { return r != nil && r.ExitCode == 0 && r.Error == nil }

// plainResult is a HookResult without its methods.
type plainResult HookResult

// wireResult is the JSON of a HookResult.
type wireResult struct {
	*plainResult
	Text string `json:"error,omitempty"`
}

// MarshalJSON writes the result with the text of its Error.
func (r HookResult) MarshalJSON() ([]byte, error) {
	wire := wireResult{plainResult: (*plainResult)(&r)}
	if r.Error != nil {
		wire.Text = r.Error.Error()
	}
	return rawjson.Marshal(wire)
}

// UnmarshalJSON reads the JSON of MarshalJSON. The Error that it makes has only a text.
func (r *HookResult) UnmarshalJSON(data []byte) error {
	wire := wireResult{plainResult: (*plainResult)(r)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	r.Error = nil
	if wire.Text != "" {
		r.Error = errors.New(wire.Text)
	}
	return nil
}

// failed returns the result of a hook that did not run.
func failed(command string, err error) *HookResult {
	return &HookResult{Command: command, ExitCode: -1, Error: err}
}

// output returns the result as the output of a program. JSONOutput has precedence over Stdout.
func (r *HookResult) output() *grapnel.Output {
	out := &grapnel.Output{Exit: r.ExitCode, Stdout: []byte(r.Stdout), Stderr: []byte(r.Stderr)}
	if r.JSONOutput != nil {
		if object, err := rawjson.Marshal(r.JSONOutput); err == nil {
			out.Stdout = object
		}
	}
	return out
}

// object returns JSONOutput, or the JSON object on Stdout, or nil.
func (r *HookResult) object() map[string]any {
	if r.JSONOutput != nil {
		return r.JSONOutput
	}
	var members map[string]any
	if json.Unmarshal([]byte(r.Stdout), &members) != nil {
		return nil
	}
	return members
}

// ExecuteResults are the results of the hooks of one event. A nil pointer has no results.
type ExecuteResults struct {
	HookType HookType      `json:"hook_type"`
	Results  []*HookResult `json:"results"` // in the order in which the hooks ran; asynchronous ones in the order in which they ended
}

// all returns the results that are not nil.
func (rs *ExecuteResults) all() []*HookResult {
	if rs == nil {
		return nil
	}
	all := make([]*HookResult, 0, len(rs.Results))
	for _, r := range rs.Results {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// FindJSONOutput returns the member key of the first JSONOutput that has it. It returns false if
// none has. A member with the value null is found.
func (rs *ExecuteResults) FindJSONOutput(key string) (any, bool) {
	for _, r := range rs.all() {
		if value, ok := r.JSONOutput[key]; ok {
			return value, true
		}
	}
	return nil, false
}

// FirstError returns the first result that is not a success, or nil. Its Error is nil if only its
// exit code shows the failure.
func (rs *ExecuteResults) FirstError() *HookResult {
	for _, r := range rs.all() {
		if !r.Success() {
			return r
		}
	}
	return nil
}

// HasErrors reports whether any result is not a success.
func (rs *ExecuteResults) HasErrors() bool { return rs.FirstError() != nil }
