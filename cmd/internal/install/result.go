package install

import "slices"

// A Result says what was done, or with DryRun what would be.
type Result struct {
	Applied bool         `json:"applied"` // false after a dry run, a refusal, or if nothing had to be done
	Files   []FileResult `json:"files"`
	Notes   []string     `json:"notes"`
	Costs   []string     `json:"costs,omitempty"` // what is given up by an installation over http; a person should read it before
}

// Changed reports whether any file changes.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f FileResult) bool { return f.Changed })
}

// A FileResult is about one settings file.
type FileResult struct {
	Agent   string   `json:"agent"`
	Scope   Scope    `json:"scope"`
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Created bool     `json:"created"` // there was no file
	Removed bool     `json:"removed"` // there is none any more
	ID      string   `json:"id"`      // token of the installation
	Events  []string `json:"events"`  // installed, or taken out
	Diff    string   `json:"diff"`
	Backup  string   `json:"backup"`
	Notes   []string `json:"notes"` // what the person has to know or do

	Via      Via      `json:"via,omitempty"`      // how the agent reaches Grapnel; empty after taking out
	Commands []string `json:"commands,omitempty"` // over http: events that still start a program
}
