package review

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// File is the current state of a policy that was trusted.
type File struct {
	File    string     `json:"file"`             // the policy, or an unreadable trust file
	State   load.State `json:"state"`            // trusted, changed, gone, broken, or untrusted: no policy vouches for it any more
	Digest  string     `json:"digest,omitempty"` // of all pinned content
	Since   time.Time  `json:"since,omitzero"`
	Vouched bool       `json:"vouched,omitempty"` // a policy vouched for it, not a user
	Runs    []string   `json:"runs"`              // the programs that the trusted content starts
	Wrong   []string   `json:"wrong"`             // the reasons for a state other than trusted
	Hint    string     `json:"hint,omitempty"`
}

// Trusted lists all policies that were ever trusted. Unreadable trust files come first.
func Trusted(place local.Place) []File {
	trusts, broken := place.Trusts().All()
	files := []File{}
	for _, e := range broken {
		files = append(files, File{
			File: e.File, State: load.Broken, Runs: []string{}, Wrong: []string{e.Msg},
			Hint: "run \"grapnel trust\" for the policy again, or remove this file",
		})
	}
	for _, trust := range trusts {
		files = append(files, inspect(place, trust))
	}
	return files
}

// inspect compares the active, trusted content of a policy with the current files.
func inspect(place local.Place, trust *load.Trust) File {
	f := File{File: trust.File, State: load.Trusted, Digest: trust.Digest(), Since: trust.Time, Vouched: trust.Vouched, Runs: []string{}, Wrong: []string{}}
	files := append(place.Files(nil, nil), load.File{Path: trust.File, Scope: grapnel.ScopeProject, Trust: true})
	req := place.Request(files, policy.Runners{Command: func(cmd policyfile.Command) grapnel.Hook {
		if cmd.Scope == grapnel.ScopeProject {
			text := cmd.Line
			if cmd.Args != nil {
				text = fmt.Sprintf("%q", cmd.Args)
			}
			f.Runs = append(f.Runs, text)
		}
		return noop.Hook{}
	}})
	for _, row := range load.Policies(req).Files {
		if !row.OfProject() || row.State == load.Trusted {
			continue
		}
		if row.Format == "" || f.State == load.Trusted {
			f.State = row.State
		}
		if row.Format != "" && row.State != load.Broken {
			f.State = load.Changed // one of the files that the policy loads
		}
		for _, e := range row.Errors {
			f.Wrong = append(f.Wrong, e.Error())
		}
	}
	for _, err := range trust.Changed() {
		if f.State == load.Trusted {
			f.State = load.Changed
		}
		f.Wrong = append(f.Wrong, err.Error())
	}
	switch f.State {
	case load.Trusted:
	case load.Gone:
		f.Hint = fmt.Sprintf("the trusted content stays active; stop enforcing it with \"grapnel untrust %s\"", trust.File)
	case load.Untrusted:
		f.Wrong = append(f.Wrong, "it has no effect: no policy vouches for it any more")
		f.Hint = fmt.Sprintf("review it with \"grapnel trust %s\"", trust.File)
	default:
		f.Hint = fmt.Sprintf("review it with \"grapnel trust %s\", or stop enforcing it with \"grapnel untrust %[1]s\"", trust.File)
	}
	f.Hint = strings.TrimSpace(f.Hint)
	return f
}
