package hookfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// An File is a file that may contain a bundle of hooks.
type File struct {
	// Source is the prefix of the hooks' names. The manifest of an extension is plugin.tool:NAME,
	// plugin.dev_tool:NAME or plugin.channel:NAME, and its bundle is in "hooks" or
	// "capabilities"."hooks". A file of the workspace is workspace:PATH, and its bundle is the
	// whole file or "hooks". Other sources are read like files of the workspace.
	Source string
	Path   string // location for messages; each path is read once. Empty = none
	Data   []byte
	Err    error // why the file cannot be read; nil = Data is its content
}

// Request describes an IronClaw installation.
type Request struct {
	Audit  func(line []byte) error  // receives the lines of IronClaw's built-in audit; nil = no audit, and a warning
	Files  []File                   // in any order; of the workspace, the files for which IsHookFile is true
	Active func(source string) bool // reports whether an extension is active; nil = all are

	// Webhook builds the hook of an outbound webhook, or returns an error for an invalid address or
	// header; nil = webhooks are skipped, with a warning for each.
	Webhook func(policyfile.Webhook) (grapnel.Hook, error)
}

// Set contains the hooks of an IronClaw installation.
type Set struct {
	Specs    []grapnel.Spec // in the order of registration
	Summary  Summary
	Errors   []*Error            // skipped files and entries, in order
	Warnings []*policyfile.Error // entries that are used but probably wrong
}

// Summary counts the registered hooks, including hooks that replace others. It does not
// count hooks that the application registers itself, such as the session summary.
type Summary struct {
	BundledHooks     int `json:"bundled_hooks"`
	PluginHooks      int `json:"plugin_hooks"`
	WorkspaceHooks   int `json:"workspace_hooks"`
	OutboundWebhooks int `json:"outbound_webhooks"`
	Errors           int `json:"errors"` // skipped files and entries
}

// Total returns the number of registered hooks.
func (s Summary) Total() int {
	return s.BundledHooks + s.PluginHooks + s.WorkspaceHooks + s.OutboundWebhooks
}

// The kinds of errors in bundles, with IronClaw's names.
const (
	InvalidFormat      = "invalid_format" // the whole file: invalid JSON, a wrong type, a missing field, an unknown point
	MissingPoints      = "missing_points"
	InvalidRegex       = "invalid_regex"
	InvalidTimeout     = "invalid_timeout"
	InvalidMaxInFlight = "invalid_webhook_max_in_flight"
)

// An Error is the reason for skipping a file or an entry.
type Error struct {
	Kind string            // empty = see Err, which Request.Webhook returned
	Hook string            // full name of the hook; empty = the whole file
	At   *policyfile.Error // position and message
	Err  error
}

// Error returns FILE:LINE:COL: message.
func (e *Error) Error() string { return e.At.Error() }

// Unwrap returns the error of Request.Webhook, or nil.
func (e *Error) Unwrap() error { return e.Err }

// IsHookFile reports whether a file of the workspace contains hooks. The path is relative to
// the workspace, with slashes.
func IsHookFile(path string) bool {
	return path == "hooks/hooks.json" || strings.HasPrefix(path, "hooks/") && strings.HasSuffix(path, ".hook.json")
}

// Find reads the files that may contain bundles, in the places of `load: [ironclaw]`:
// manifests of extensions below .ironclaw/ in the home directory and in the workspace, and hooks/
// of the workspace. An empty directory name is skipped. No link leads out of a directory.
func Find(home, workspace string) ([]File, error) {
	var files []File
	ofUser := slices.DeleteFunc(slices.Clone(Format.User), func(pattern string) bool { return !strings.HasPrefix(pattern, ".ironclaw/") })
	for _, place := range []struct {
		dir      string
		patterns []string
	}{{home, ofUser}, {workspace, Format.Project}} {
		if place.dir == "" {
			continue
		}
		root, err := os.OpenRoot(place.dir)
		if err != nil {
			return nil, fmt.Errorf("cannot search for hooks: %w", err)
		}
		defer func() { _ = root.Close() }()
		for _, pattern := range place.patterns {
			for _, name := range matching(root.FS(), pattern) {
				f := File{Path: filepath.Join(place.dir, filepath.FromSlash(name))}
				f.Source = sourceOf(&hookfiles.File{Path: f.Path, Name: name})
				f.Data, f.Err = readBelow(root, name)
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// matching returns the files that match a pattern. It skips directories that it cannot read, and
// follows no symlinks to directories.
func matching(files fs.FS, pattern string) []string {
	base, _ := glob.Split(pattern)
	deep := strings.Contains(pattern, "**")
	var names []string
	_ = fs.WalkDir(files, base, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil, d.IsDir() && !deep && strings.Count(name, "/") >= strings.Count(pattern, "/"):
			return fs.SkipDir
		case !d.IsDir() && glob.Match(pattern, name):
			names = append(names, name)
		}
		return nil
	})
	return names
}

// maxFile limits the size of a file in bytes, as for `load:`.
const maxFile = 1 << 20

// readBelow reads a file that is in the directory root.
func readBelow(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Size() > maxFile:
		return nil, errors.New("is larger than 1 MiB")
	}
	return root.ReadFile(name)
}

// Load returns the hooks that IronClaw registers at start: its built-in hooks, and the
// hooks of active extensions and of the workspace. Invalid files and entries are skipped. The Specs
// are for the preset "ironclaw" and already have its Defaults. Package systems/ironclaw has a registry
// for them, and its Bootstrap finds the files too. Each file is a source:
//
//	preset, _ := grapnel.FindPreset("ironclaw")
//	set := hookfiles.Load(hookfiles.Request{Files: files})
//	engine, err := grapnel.New(set.Specs, &grapnel.Options{Preset: preset})
//
// To activate an extension later, load it the same way and pass its Specs to Engine.Add.
// Engine.Remove with its source removes only its hooks.
func Load(req Request) Set {
	files := slices.DeleteFunc(slices.Clone(req.Files), func(f File) bool {
		return ofExtension(f.Source) && req.Active != nil && !req.Active(f.Source)
	})
	webhook := req.Webhook
	if webhook == nil {
		webhook = func(policyfile.Webhook) (grapnel.Hook, error) { return nil, nil }
	}
	r := readBundles(files, webhook)
	set := Set{Errors: r.errors, Warnings: r.notes}
	if req.Audit == nil {
		set.Warnings = append(set.Warnings, &policyfile.Error{File: AuditLogName, Msg: "is not loaded", Hint: "set Request.Audit"})
	}
	set.Summary = Summary{OutboundWebhooks: r.senders, Errors: len(r.errors)}
	for source, rules := range r.rules {
		if ofExtension(source) {
			set.Summary.PluginHooks += rules
		} else {
			set.Summary.WorkspaceHooks += rules
		}
	}
	preset, _ := grapnel.FindPreset("ironclaw")
	if req.Audit != nil {
		set.Specs = append(set.Specs, preset.Defaults(AuditLog(req.Audit)))
		set.Summary.BundledHooks = len(set.Specs)
	}
	for i := range r.hooks {
		set.Specs = append(set.Specs, preset.Defaults(r.hooks[i].spec(&files[r.hooks[i].FileIndex])))
	}
	return set
}
