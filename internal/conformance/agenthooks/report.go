package agenthooks

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/host/agenthooks"
)

// A Part holds the results of the vectors of one part of the specification, and their counts.
type Part struct {
	Part    string   `json:"part"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Results []Result `json:"results"`
}

// Parts groups results by part. Results without a part come first.
func Parts(results []Result) []Part {
	var parts []Part
	for _, r := range results {
		i := slices.IndexFunc(parts, func(p Part) bool { return p.Part == r.Part })
		if i < 0 {
			i = len(parts)
			parts = append(parts, Part{Part: r.Part})
		}
		p := &parts[i]
		p.Results = append(p.Results, r)
		switch r.Status {
		case Passed:
			p.Passed++
		case Skipped:
			p.Skipped++
		default:
			p.Failed++
		}
	}
	slices.SortFunc(parts, func(a, b Part) int {
		if (a.Part == untagged) != (b.Part == untagged) {
			return map[bool]int{true: -1, false: 1}[a.Part == untagged]
		}
		return cmp.Compare(a.Part, b.Part)
	})
	return parts
}

// A Declaration is the conformance claim that goes with a report.
type Declaration struct {
	Framework        string               `json:"framework"`
	Adapter          string               `json:"adapter_version"`
	Spec             string               `json:"spec"`
	Language         string               `json:"language"`
	Capabilities     []string             `json:"capabilities"`
	Profiles         []agenthooks.Profile `json:"profiles"`
	IdentityProvider string               `json:"identity_provider"`
	Posture          agenthooks.Posture   `json:"tool_seam_host_error"`
}

// Declare returns the Declaration for results that were produced with opts. A nil opts means
// the defaults.
func Declare(opts *Options) Declaration {
	d := Declaration{
		Framework: "grapnel", Adapter: "unknown", Spec: "agent-hooks/0.1", Language: "go", Capabilities: Capabilities(),
		Profiles:         []agenthooks.Profile{agenthooks.FirstDeny, agenthooks.RunAll, agenthooks.Strictest, agenthooks.Unanimous},
		IdentityProvider: agenthooks.JCS().Name, Posture: agenthooks.Continue,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Adapter, d.Language = cmp.Or(info.Main.Version, d.Adapter), cmp.Or(info.GoVersion, d.Language)
	}
	if opts != nil && opts.Capabilities != nil {
		d.Capabilities = opts.Capabilities
	}
	if opts != nil && opts.Posture != "" {
		d.Posture = opts.Posture
	}
	return d
}

// String formats a result for people. It is empty for a vector that passed without a deliberate
// difference, and lists every difference of a failed one.
func (r *Result) String() string {
	switch {
	case r.Status == Skipped:
		return fmt.Sprintf("skipped: %s: %s\n", r.ID, r.Skip)
	case r.Status == Passed && r.Law != "":
		return fmt.Sprintf("deliberate difference: %s: %s\n", r.ID, r.Law)
	case r.Status == Passed:
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FAILED: %s: %s (%s)\n", r.ID, r.Title, r.File)
	if r.Error != "" {
		fmt.Fprintf(&b, "    %s\n", r.Error)
	}
	for _, d := range r.Diffs {
		fmt.Fprintf(&b, "    %s\n        got  %s\n        want %s\n", d.Path, compact(d.Got), compact(d.Want))
	}
	return b.String()
}
