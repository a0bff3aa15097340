package install

import "slices"

// A Result lists the changes, or with DryRun the planned changes.
type Result struct {
	Applied bool         `json:"applied"` // false after a dry run, a refusal, or if there was nothing to do
	Files   []FileResult `json:"files"`
	Notes   []string     `json:"notes"`
	Costs   []string     `json:"costs,omitempty"` // disadvantages of an installation over HTTP, which the user should know before
}

// Changed reports whether any file changes.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f FileResult) bool { return f.Changed })
}

// A FileResult is the result for one settings file.
type FileResult struct {
	Agent   string   `json:"agent"`
	Scope   Scope    `json:"scope"`
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Created bool     `json:"created"` // the file did not exist before
	Removed bool     `json:"removed"` // the file does not exist any more
	ID      string   `json:"id"`      // token of the installation
	Events  []string `json:"events"`  // installed or removed
	Diff    string   `json:"diff"`
	Backup  string   `json:"backup"`
	Notes   []string `json:"notes"` // what the user has to know or do

	Via      Via      `json:"via,omitempty"`      // how the agent sends events; empty after a removal
	Commands []string `json:"commands,omitempty"` // over HTTP: events that still start a program
}
