package install

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Result lists the changes, or with DryRun the planned changes.
type Result struct {
	Applied bool         `json:"applied"` // false after a dry run, a refusal, or if there was nothing to do
	Files   []FileResult `json:"files"`
	Skipped []Skipped    `json:"skipped"` // detected agents that cannot be changed
	Notes   []string     `json:"notes"`
	Digest  string       `json:"digest,omitempty"` // of the planned changes, after a dry run of Uninstall
}

// Changed reports whether any file changes.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f FileResult) bool { return f.Changed })
}

// digestOfPlan identifies the planned changes: "sha256:" and the hash in hex.
func (r *Result) digestOfPlan() string {
	var b []byte
	for i := range r.Files {
		f := &r.Files[i]
		b = fmt.Appendf(b, "%q %q %q\n", f.Agent, f.File, f.Diff)
	}
	return "sha256:" + files.Digest(b)
}

// Agents returns the files of each agent, in the order of Files.
func (r *Result) Agents() [][]FileResult {
	var agents [][]FileResult
	for i := range r.Files {
		f := &r.Files[i]
		if i == 0 || f.Agent != r.Files[i-1].Agent || f.Scope != r.Files[i-1].Scope || f.ID != r.Files[i-1].ID {
			agents = append(agents, nil)
		}
		last := &agents[len(agents)-1]
		*last = r.Files[i-len(*last) : i+1 : i+1]
	}
	return agents
}

// Skipped is an agent that was detected and cannot be changed.
type Skipped struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason"`
}

// A FileResult is the result for one settings file.
type FileResult struct {
	Agent    string   `json:"agent"`
	Version  string   `json:"version,omitempty"` // of the agent, if it is known
	Scope    Scope    `json:"scope"`
	File     string   `json:"file"`
	Changed  bool     `json:"changed"`
	Declined bool     `json:"declined,omitempty"` // it would change, but Confirm returned false
	Created  bool     `json:"created"`            // the file did not exist before
	Removed  bool     `json:"removed"`            // the file does not exist any more
	ID       string   `json:"id"`                 // token of the installation
	Events   []string `json:"events"`             // installed or removed
	Diff     string   `json:"diff"`
	Backup   string   `json:"backup"`
	Notes    []string `json:"notes"` // what the user has to know or do

	Unguarded string `json:"unguarded,omitempty"` // what the user must do before the agent runs the hooks
}
