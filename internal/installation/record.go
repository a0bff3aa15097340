// Package installation reads and writes the records of installations.
//
// The command that "grapnel install" writes into an agent's settings names its installation by a
// random token. The program behind that command looks the token up:
//
//	dir, err := installation.Dir(root) // root is the value of --root, usually ""
//	rec, err := installation.Read(dir, id)
//
// It takes its policy, state directory and search path from the Record, because an agent's
// project settings can set any environment variable of a hook. For the same reason Dir takes the
// home directory from the user database, never from $HOME.
//
// The package deliberately imports little: it is linked into the program that runs at every
// event. It does not depend on agents or their settings files.
package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// A Record describes one installation: the entries of Grapnel in one settings file of one agent.
type Record struct {
	ID       string `json:"id"`                // token in the installed command
	Agent    string `json:"agent"`             // name of the agent, as "claude-code"
	Scope    string `json:"scope"`             // "user", "project" or "managed"
	Project  string `json:"project,omitempty"` // directory of the project, for scope "project"
	Settings string `json:"settings"`          // the agent's file that holds the entries, absolute

	Program string `json:"program"`          // absolute path of the hook program
	Root    string `json:"root,omitempty"`   // value of --root, if the command has that option instead of the token
	Policy  string `json:"policy,omitempty"` // the user's policy file
	State   string `json:"state,omitempty"`  // directory of spool, sessions and snapshots; with scope "managed" each user has a separate one
	Path    string `json:"path,omitempty"`   // PATH for commands that hooks start

	Events          []string         `json:"events"`                      // the agent's names of the events, in the agent's order
	TimeoutMS       int64            `json:"timeout_ms"`                  // the agent's timeout for the hook, milliseconds
	EventTimeoutsMS map[string]int64 `json:"event_timeouts_ms,omitempty"` // events with a separate timeout, milliseconds
	FailClosed      bool             `json:"fail_closed,omitempty"`       // the agent is configured to block when the hook fails
	AgentVersion    string           `json:"agent_version,omitempty"`     // version of the agent; empty = unknown, or its events do not depend on it

	Made    Made      `json:"made"`
	Files   []File    `json:"files,omitempty"`   // other files that the installation created or edited
	Version string    `json:"version,omitempty"` // version of Grapnel
	Time    time.Time `json:"time"`              // of the latest installation
}

// Timeout returns how long the agent waits for the hook at the event, which has the agent's name.
func (r Record) Timeout(event string) time.Duration {
	if ms, ok := r.EventTimeoutsMS[event]; ok {
		return time.Duration(ms) * time.Millisecond
	}
	return time.Duration(r.TimeoutMS) * time.Millisecond
}

// A File is another file of an installation, in addition to the settings file.
type File struct {
	Path string `json:"path"` // absolute
	Made Made   `json:"made"`
}

// Made lists the parts of a settings file that an installation created around its entries, so
// that removing them restores the exact original. The zero value means that everything around the
// entries existed before.
type Made struct {
	File   bool     `json:"file,omitempty"`   // the file itself
	Dirs   []string `json:"dirs,omitempty"`   // its parent directories, outermost first
	Blank  *string  `json:"blank,omitempty"`  // the original content, if that was only white space
	Hooks  bool     `json:"hooks,omitempty"`  // the key "hooks"
	Events []string `json:"events,omitempty"` // keys inside "hooks"
	Keys   []string `json:"keys,omitempty"`   // other members, with their path: "plugins/load"

	// Gaps holds the white space before the closing bracket of objects and arrays that were
	// empty. Its keys are "" for the whole document, "hooks", "hooks/EVENT", and the entries of
	// Keys.
	Gaps map[string]string `json:"gaps,omitempty"`
}

// ErrNotFound is wrapped by the error of Read if no installation has the token.
var ErrNotFound = errors.New("no such installation")

// maxSize is the maximum size of a record file in bytes. Real ones are below 4 KiB.
const maxSize = 256 << 10

// idLength is the length of a token: 128 bits in base32 without padding.
const idLength = 26

// ValidID reports whether id has the form of a token. An ID becomes a part of file names, so
// callers must reject anything else, such as "../x".
func ValidID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// State returns the state directory of Grapnel: ROOT/state, or .local/state/grapnel below the
// home directory from the user database if root is empty. It does not create the directory.
func State(root string) (string, error) {
	if root != "" {
		abs, err := filepath.Abs(root)
		if err != nil {
			return "", fmt.Errorf("--root %q: %w", root, err)
		}
		return filepath.Join(abs, "state"), nil
	}
	dir, err := home.Dir()
	if err != nil {
		return "", fmt.Errorf("cannot find the home directory of this user: %w. Write its path to /etc/grapnel/home as root, or use another root (--root DIR)", err)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("the user database has no home directory for this user (%q), use another root (--root DIR)", dir)
	}
	return filepath.Join(dir, ".local", "state", "grapnel"), nil
}

// Managed returns the directory for files that only root may write: policies in policy.d, and in
// installs the records of installations for all users. system is "/" except in tests and with
// --root.
func Managed(system string) string { return filepath.Join(system, "etc", "grapnel") }

// Dir returns the directory of the records, below State(root).
func Dir(root string) (string, error) {
	state, err := State(root)
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "installs"), nil
}

// Find returns the record with the token id: of a managed installation if it exists, otherwise of
// the user's installation. A file of the user must not shadow an installation by root, so a
// managed record that other users can write is an error.
func Find(id string) (Record, error) {
	if !ValidID(id) {
		return Record{}, notToken(id)
	}
	rec, err := find(Managed("/"), id)
	if !errors.Is(err, ErrNotFound) {
		return rec, err
	}
	dir, err := Dir("")
	if err != nil {
		return Record{}, err
	}
	return Read(dir, id)
}

// find looks for a managed installation.
func find(managed, id string) (Record, error) {
	name := filename(filepath.Join(managed, "installs"), id)
	rec, err := read(name, func(info fs.FileInfo) error {
		if err := files.OnlyRoot(info); err != nil {
			return err
		}
		return files.OnlyRootPath(name)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{}, fmt.Errorf("installation %s: %w in %s", id, ErrNotFound, managed)
	case err != nil:
		return Record{}, fmt.Errorf("installation %s: %w; root must run \"grapnel install --scope managed\" again", id, err)
	case rec.ID != id || rec.Scope != "managed":
		return Record{}, fmt.Errorf("installation %s: %s is the record of %q for scope %q; root must run \"grapnel install --scope managed\" again", id, name, rec.ID, rec.Scope)
	}
	return rec, nil
}

func notToken(id string) error {
	return fmt.Errorf("installation %q: not a token (%d characters of a-z and 2-7), run \"grapnel install\" again", id, idLength)
}

// Read returns the record with the token id. It fails with ErrNotFound if the record does not
// exist. It also fails if other users could have written the file.
func Read(dir, id string) (Record, error) {
	if !ValidID(id) {
		return Record{}, notToken(id)
	}
	name := filename(dir, id)
	rec, err := read(name, files.Mine)
	if err == nil {
		err = ownDir(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{}, fmt.Errorf("installation %s: %w in %s, run \"grapnel install\" again", id, ErrNotFound, dir)
	case err != nil:
		return Record{}, fmt.Errorf("installation %s: %w, run \"grapnel install\" again", id, err)
	case rec.ID != id:
		return Record{}, fmt.Errorf("installation %s: %s is the record of %q, run \"grapnel install\" again", id, name, rec.ID)
	}
	return rec, nil
}

// ownDir returns an error if other users could replace a record in the directory.
func ownDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 {
		err = fmt.Errorf("all users can write to %s (mode %04o)", dir, info.Mode().Perm())
	}
	return err
}

// read reads a record if check accepts its file. The check matters because a record selects the
// policy.
func read(name string, check func(fs.FileInfo) error) (Record, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a blocking open of a named pipe may never return
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	if !info.Mode().IsRegular() {
		return Record{}, fmt.Errorf("%s is not a regular file", name)
	}
	if err := check(info); err != nil {
		return Record{}, fmt.Errorf("%s is ignored: %w", name, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Record{}, err
	}
	if len(data) > maxSize {
		return Record{}, fmt.Errorf("%s is larger than %d KiB", name, maxSize>>10)
	}
	var rec Record
	if err := json.Unmarshal(data, &rec); err != nil {
		return Record{}, fmt.Errorf("%s: %w", name, err)
	}
	return rec, nil
}

// Write stores the record under its ID and replaces an older one. It creates the directory. A
// reader sees either the old record or the new one, never a part. All users can read the record
// of a managed installation, because every user's agent runs it.
func Write(dir string, rec Record) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write the record of installation %s: %w", rec.ID, err)
		}
	}()
	if !ValidID(rec.ID) {
		return errors.New("the ID is not a token")
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	mode, dirMode := fs.FileMode(0o600), fs.FileMode(0o700)
	if rec.Scope == "managed" {
		mode, dirMode = 0o644, 0o755
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	if rec.Scope == "managed" { // independent of the umask
		if err := os.Chmod(dir, dirMode); err != nil {
			return err
		}
	}
	return files.WriteSync(filename(dir, rec.ID), append(data, '\n'), mode)
}

// List returns all records, oldest installation first. If the directory does not exist, the list
// is empty. Records that cannot be read are left out and named in the error; the returned records
// are valid even if there is an error.
func List(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the installations: %w", err)
	}
	var recs []Record
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !ValidID(id) {
			continue
		}
		rec, err := Read(dir, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		recs = append(recs, rec)
	}
	slices.SortStableFunc(recs, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return recs, errors.Join(errs...)
}

// Remove deletes the record of an installation. It is not an error if no record exists.
func Remove(dir, id string) error {
	if !ValidID(id) {
		return fmt.Errorf("installation %q: not a token", id)
	}
	if err := os.Remove(filename(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the record of installation %s: %w", id, err)
	}
	return nil
}

func filename(dir, id string) string { return filepath.Join(dir, id+".json") }
