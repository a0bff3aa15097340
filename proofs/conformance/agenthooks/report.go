package agenthooks

import (
	"cmp"
	"runtime/debug"
	"slices"

	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Part holds the results of the vectors of one part of the specification, and their counts.
type Part struct {
	Part string
	conformance.Count
	Results []conformance.Result
}

// MarshalJSON writes the members in the words of the specification.
func (p *Part) MarshalJSON() ([]byte, error) {
	type diff struct {
		Path string `json:"path"`
		Got  any    `json:"got"`
		Want any    `json:"want"`
	}
	type result struct {
		ID     string             `json:"id"`
		Title  string             `json:"title,omitempty"`
		Part   string             `json:"part"`
		Status conformance.Status `json:"status"`
		Skip   string             `json:"skip,omitempty"`
		Law    string             `json:"law,omitempty"`
		Error  string             `json:"error,omitempty"`
		Diffs  []diff             `json:"diffs,omitempty"`
		File   string             `json:"file,omitempty"`
	}
	out := struct {
		Part string `json:"part"`
		conformance.Count
		Results []result `json:"results"`
	}{p.Part, p.Count, nil}
	for i := range p.Results {
		r := &p.Results[i]
		shown := result{r.ID, r.Name, r.Kind, r.Status, r.Gap, r.Law, r.Error, nil, r.File}
		for _, d := range r.Diffs {
			shown.Diffs = append(shown.Diffs, diff{d.Key, d.Got, d.Want})
		}
		out.Results = append(out.Results, shown)
	}
	return rawjson.Marshal(out)
}

// Parts groups results by part. Results without a part come first.
func Parts(results []conformance.Result) []Part {
	var parts []Part
	for _, r := range results {
		i := slices.IndexFunc(parts, func(p Part) bool { return p.Part == r.Kind })
		if i < 0 {
			i = len(parts)
			parts = append(parts, Part{Part: r.Kind})
		}
		parts[i].Results = append(parts[i].Results, r)
	}
	for i := range parts {
		parts[i].Count = conformance.CountOf(parts[i].Results)
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
		Framework: "grapnel", Adapter: "unknown", Spec: "agent-hooks/0.1", Language: "go", Capabilities: opts.capabilities(),
		Profiles:         []agenthooks.Profile{agenthooks.FirstDeny, agenthooks.RunAll, agenthooks.Strictest, agenthooks.Unanimous},
		IdentityProvider: agenthooks.JCS().Name, Posture: opts.posture(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Adapter, d.Language = cmp.Or(info.Main.Version, d.Adapter), cmp.Or(info.GoVersion, d.Language)
	}
	return d
}
