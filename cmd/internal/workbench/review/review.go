// Package review describes the effect of a project's policy, for the decision whether to trust
// it, and the state of policies that were trusted before.
package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Report is the output of "grapnel trust --json".
type Report struct {
	File    string `json:"file"`
	Digest  string `json:"digest"`  // of everything that is pinned or would be pinned
	Trusted bool   `json:"trusted"` // the policy is trusted now
	SHA256  string `json:"sha256"`  // of the policy file

	Loads    []load.PinnedLoad `json:"loads,omitempty"` // hook files of other systems
	Pins     []load.Pin        `json:"pins"`
	Unpinned []string          `json:"unpinned"`
	Hooks    []Hook            `json:"hooks"`
}

// A Hook describes one hook of a policy.
type Hook struct {
	Name string   `json:"name"`
	On   []string `json:"on"`
	Does string   `json:"does"`
	File string   `json:"file,omitempty"` // hook file of another system
}

// NewReport describes the examined policy. trusted reports whether the policy is trusted now.
func NewReport(x *load.Examined, trusted bool) Report {
	r := Report{
		File: x.File, Digest: x.Digest(), Trusted: trusted, SHA256: x.SHA256, Loads: x.Loads, Pins: x.Pins, Unpinned: append([]string{}, x.Unpinned...), Hooks: []Hook{},
	}
	for _, use := range x.Policy.Use {
		r.Hooks = append(r.Hooks, Hook{Name: use.Pack.Text, On: []string{}, Does: "a pack"})
	}
	add := func(h *policyfile.Hook, does, file string) {
		on := make([]string, len(h.On))
		for j, kind := range h.On {
			on[j] = string(kind)
		}
		r.Hooks = append(r.Hooks, Hook{Name: h.Name, On: on, Does: does, File: file})
	}
	for i := range x.Policy.Hooks {
		h := &x.Policy.Hooks[i]
		add(h, Describe(h)+Sandbox(h), "")
	}
	for _, f := range x.Foreign {
		for i := range f.Hooks {
			h := &f.Hooks[i]
			switch {
			case h.Webhook != nil:
				add(&h.Hook, "notifies "+h.Webhook.URL, f.Path)
			case h.Rule:
				add(&h.Hook, "a rule of the format "+f.Format, f.Path)
			default:
				add(&h.Hook, Describe(&h.Hook), f.Path)
			}
		}
	}
	return r
}

// Describe returns the effect of a hook, with the texts of the policy file.
func Describe(h *policyfile.Hook) string {
	switch {
	case h.HTTP != nil && h.HTTP.Notify:
		return "sends " + whatIsSent(h.HTTP) + " to " + h.HTTP.Address() + ", with retries"
	case h.HTTP != nil && h.HTTP.Async:
		return "sends " + whatIsSent(h.HTTP) + " to " + h.HTTP.URL
	case h.HTTP != nil:
		return "sends " + whatIsSent(h.HTTP) + " to " + h.HTTP.URL + " and applies its answer"
	case h.Context != nil && h.Context.Run != nil && h.Context.Run.Args != nil:
		return fmt.Sprintf("adds the output of %q to the context of the model", h.Context.Run.Args)
	case h.Context != nil && h.Context.Run != nil:
		return "adds the output of this command to the context of the model: " + h.Context.Run.Line
	case h.Builtin != nil && h.Run == nil:
		return h.Builtin.Name + ", writes to " + h.Builtin.File
	case h.Limit != nil:
		return "limits to " + h.Limit.String()
	case h.Run != nil && h.Run.Worker && h.Run.Args != nil:
		return fmt.Sprintf("asks the worker %q", h.Run.Args)
	case h.Run != nil && h.Run.Worker:
		return "asks the worker " + h.Run.Line
	case h.Run != nil && h.Run.Args != nil:
		return fmt.Sprintf("runs %q", h.Run.Args)
	case h.Run != nil:
		return "runs " + h.Run.Line
	case h.Decide == "allow":
		return "allow, which has an effect only if your own policy grants it"
	case h.Decide != "":
		return h.Decide
	case h.Contain != nil:
		return "runs the command in a " + h.Contain.Describe()
	case h.Replace != nil:
		return "replaces text"
	case h.Mask != nil:
		return "masks secrets"
	case h.Set != nil || h.Places != nil:
		var fields []string
		for _, place := range h.Places {
			fields = append(fields, fmt.Sprintf("%s to %s", &place, place.Value))
		}
		for field, value := range h.Set {
			fields = append(fields, fmt.Sprintf("%s to %s", field, value))
		}
		slices.Sort(fields)
		return "sets " + strings.Join(fields, ", ")
	case h.Context != nil && h.Context.File != "":
		return "adds the file " + h.Context.File + " to the context of the model"
	default:
		return "adds text to the context of the model"
	}
}

// whatIsSent describes the body that a server gets.
func whatIsSent(h *policyfile.HTTP) string {
	switch {
	case h.Body == "summary":
		return "a summary of the event"
	case h.ForPeople():
		return "a message about the event"
	case len(h.Members) > 0:
		return "its own parts of the event"
	}
	return "the whole event"
}

// Sandbox returns a description of the sandbox of a hook's program, on a new line, or "".
func Sandbox(h *policyfile.Hook) string {
	if cmd := Program(h); cmd != nil && cmd.Sandbox != nil {
		return "\n" + cmd.Sandbox.Describe()
	}
	return ""
}

// Program returns the program that a hook starts, or nil.
func Program(h *policyfile.Hook) *policyfile.Command {
	if h.Context != nil {
		return h.Context.Run
	}
	return h.Run
}
