package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// memory is stored from one run to the next: the hooks of other programs.
type memory struct {
	Version int          `json:"version"`
	Time    time.Time    `json:"time"`
	Looked  []string     `json:"looked"` // AGENT FILE of each file that was checked, existing or not
	Hooks   []remembered `json:"hooks"`
}

type remembered struct {
	Agent   string `json:"agent"`
	Scope   string `json:"scope"`
	File    string `json:"file"`
	Event   string `json:"event"`
	Command string `json:"command"` // with secrets masked
	Digest  string `json:"digest"`
}

// same reports whether both are the same hook, possibly at different times.
func (r remembered) same(other remembered) bool {
	return r.Agent == other.Agent && r.File == other.File && r.Event == other.Event && r.Command == other.Command
}

func memoryFile(state string) string { return filepath.Join(state, "doctor.json") }

// maxMemory is the maximum size of the file in bytes. A larger file is replaced, which the report
// mentions.
const maxMemory = 4 << 20

// readMemory returns nil if the file does not exist yet.
func readMemory(file string) (*memory, error) {
	data, err := readFile(file, maxMemory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m memory
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &m, nil
}

// write replaces the file, readable and writable for its owner alone: a user with write access
// could hide a change of the hooks.
func (m *memory) write(file string) error {
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return files.Write(file, append(data, '\n'), 0o600)
}

// judgeOthers judges the hooks of other programs, and how they changed.
func judgeOthers(f *facts) ([]Finding, *memory) {
	kept := &memory{Version: 1, Time: f.now.UTC().Truncate(time.Second), Looked: []string{}, Hooks: []remembered{}}
	var found []Finding
	var before []remembered
	known := map[string]bool{} // files that were checked before
	if f.before != nil {
		before = slices.Clone(f.before.Hooks)
		for _, file := range f.before.Looked {
			known[file] = true
		}
	}
	looked, fresh := map[string]bool{}, 0
	for i := range f.agents {
		a := &f.agents[i]
		for _, l := range a.layers {
			key := a.Name + " " + l.file
			if l.err != "" || looked[key] {
				continue
			}
			looked[key] = true
			for n, h := range l.hooks {
				if f.mine(h) {
					continue
				}
				sum := sha256.Sum256([]byte(h.Digest() + l.script[n]))
				now := remembered{Agent: a.Name, Scope: l.scope, File: l.file, Event: h.Event, Command: maskedCommand(h.Command), Digest: hex.EncodeToString(sum[:])}
				kept.Hooks = append(kept.Hooks, now)
				found = append(found, drift(f, now, &before, known[key]))
				if !known[key] {
					fresh++
				}
			}
		}
		found = append(found, undone(f, a)...)
	}
	// Keep hooks of files that were not checked now. The remaining hooks of checked files were
	// removed.
	for _, r := range before {
		if !looked[r.Agent+" "+r.File] {
			kept.Hooks = append(kept.Hooks, r)
			continue
		}
		found = append(found, Finding{
			ID: "hooks.gone", Level: Info, Agent: r.Agent, Subject: r.File, What: "gone since " + minute(f.before.Time) + ": " + r.description(), Fingerprint: r.Digest,
		})
	}
	maps.Copy(known, looked)
	kept.Looked = slices.Sorted(maps.Keys(known))
	if f.beforeTo != "" {
		found = append(found, Finding{ID: "hooks.forgotten", Level: Warn, What: "cannot read the fingerprints of other hooks: " + f.beforeTo, Why: "changes since then are unknown; new fingerprints are saved"})
	}
	if fresh > 0 {
		found = append(found, Finding{ID: "hooks.remembered", Level: Info, What: fmt.Sprintf("other hooks in files seen for the first time: %d", fresh), Why: "from now on, each check reports new, changed and removed hooks"})
	}
	return found, kept
}

// mine reports whether an entry is from Grapnel. An entry in the form of Grapnel that runs
// another program is a hook that hides itself.
func (f *facts) mine(h install.Found) bool {
	return h.Ours && (h.Program == "" || h.Program == filepath.ToSlash(f.program) ||
		slices.ContainsFunc(f.records, func(r installation.Record) bool { return h.Program == filepath.ToSlash(r.Program) }))
}

// description describes a hook in one line.
func (r remembered) description() string {
	what, in := r.Command, r.Scope+", "+r.File
	if r.Event != "" {
		what = r.Event + ": " + what
	}
	if filepath.IsAbs(r.Command) && strings.HasPrefix(r.Command, filepath.Dir(r.File)) { // the file itself is the hook
		in = r.Scope
	}
	return fmt.Sprintf("%s (%s)", what, in)
}

// drift compares a hook with its remembered state, and removes that from before. known means that
// its file was checked before.
func drift(f *facts, now remembered, before *[]remembered, known bool) Finding {
	found := Finding{ID: "hooks.other", Level: Info, Agent: now.Agent, Subject: now.File, What: "another hook: " + now.description(), Fingerprint: now.Digest}
	equal := slices.IndexFunc(*before, func(r remembered) bool { return r.same(now) && r.Digest == now.Digest })
	if equal < 0 {
		equal = slices.IndexFunc(*before, now.same)
	}
	switch {
	case equal >= 0:
		was := (*before)[equal]
		*before = slices.Delete(*before, equal, equal+1)
		if was.Digest != now.Digest {
			found.ID, found.Level, found.What = "hooks.changed", Warn, "changed since "+minute(f.before.Time)+": "+now.description()
			found.Why, found.Hint = "the entry, or the file that it runs, has changed since the last check", "review it, unless you made the change"
		}
	case known:
		found.ID, found.Level, found.What = "hooks.new", Warn, "new since "+minute(f.before.Time)+": "+now.description()
		found.Why, found.Hint = "it runs with your permissions at each of these events", "review it, unless you made the change"
	}
	return found
}

// undone returns the hooks of other programs at events where a guard decides and another reply
// can override its decision.
func undone(f *facts, a *agent) []Finding {
	if a.Setup().Undone == "" || len(a.installs) == 0 {
		return nil
	}
	var names []string
	for _, l := range a.layers {
		for _, h := range l.hooks {
			if row := a.row(h.Event); f.mine(h) || h.Event != "" && (row == nil || !decides(row.Kind)) {
				continue
			}
			name := remembered{Scope: l.scope, File: l.file, Event: h.Event, Command: maskedCommand(h.Command)}.description()
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []Finding{{
		ID: "hooks.undo", Level: Info, Agent: a.Name, What: "can undo Grapnel's decisions: " + strings.Join(names, "; "),
		Why: a.Setup().Undone, Hint: "let Grapnel run them (load: in the policy), or make sure that they never decide at these events",
	}}
}

// row returns the event with a name as in the agent's files.
func (a *agent) row(event string) *dialect.EventRow {
	for i := range a.Events {
		if event == a.Events[i].Native || a.Setup().Fold && strings.EqualFold(strings.ReplaceAll(event, "_", ""), a.Events[i].Native) {
			return &a.Events[i]
		}
	}
	return nil
}

// maskedCommand returns the form of a command that is shown and stored: masked and shortened.
func maskedCommand(command string) string { return cut(spool.Mask(command), 300) }

// decides reports whether a hook at this event can block an action or change something.
func decides(kind grapnel.Kind) bool {
	c, ok := grapnel.ContractOf(kind)
	return ok && c.Blocks != grapnel.BlockingStop && (c.Blocks == grapnel.BlockingAction || len(c.Changes) > 0)
}

// scriptOf returns the absolute path of the file that a hook runs; empty = unknown. dir is the
// base of relative paths.
func scriptOf(h *install.Found, dir string, expand func(string) string) string {
	file := install.Script(h.Command, expand)
	if file == "" || strings.ContainsRune(file, 0) {
		return ""
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return filepath.Clean(file)
}
