// Package approval stores the calls that a person has approved, and applies it to the events of agents: a
// stopped call may pass once, for a while, or for a session.
package approval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
)

const (
	// Default is how long a single use is valid.
	Default = 10 * time.Minute
	// Max is how long a Grant can be valid.
	Max = 24 * time.Hour
)

// A Grant is a person's approval of one call. It is stored in a file.
type Grant struct {
	ID     string    `json:"id"`
	By     string    `json:"by"` // name of the person
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Uses   int       `json:"uses,omitempty"` // how many calls may pass; 0 = any number
	Scope  Scope     `json:"scope"`
	Digest string    `json:"digest"`           // of the call, see [Store.Digest]
	Policy string    `json:"policy,omitempty"` // digest of the policies in force; empty = any
	Hooks  []string  `json:"hooks"`            // full names of the hooks whose answers have no effect
	Call   string    `json:"call"`             // the masked call, for people
	Record string    `json:"record"`           // ID of the Record of the stopped call
	Logged string    `json:"logged"`           // ID of the Record that logs this Grant
}

// Content identifies the Grant in the Record that logs it: the beginning of a digest of all other
// fields.
func (g *Grant) Content() string {
	own := *g
	own.Logged = ""
	data, err := json.Marshal(own)
	if err != nil { // a time that JSON cannot express
		return ""
	}
	return files.Digest(data)[:16]
}

// Scope limits a Grant to a part of the work of agents. The Digest contains all of it except the
// session.
type Scope struct {
	Agent   string       `json:"agent"`
	Event   grapnel.Kind `json:"event"`
	Tool    string       `json:"tool,omitempty"`
	Dir     string       `json:"dir"`
	Session string       `json:"session,omitempty"` // empty = each session
}

// New completes a Grant: it begins at now, lasts for a time, and has a new ID. It returns an error
// if length is less than a second or more than [Max].
func (g *Grant) New(now time.Time, length time.Duration) error {
	if length < time.Second || length > Max {
		return fmt.Errorf("a call can be allowed for one second to %v, not %v", Max, length)
	}
	g.ID = NewID()
	g.Since = now.UTC().Truncate(time.Second) // also removes the monotonic clock reading, which is only valid in this process
	g.Until = g.Since.Add(length)
	return nil
}

// NewID returns the ID of a Grant or a Request. An ID is not a secret.
func NewID() string { return fmt.Sprintf("%012x", rand.Uint64()>>16) }

// String returns how often and until when the call may pass.
func (g *Grant) String() string {
	often := "any number of times"
	switch {
	case g.Uses == 1:
		often = "once"
	case g.Uses > 1:
		often = fmt.Sprintf("%d times", g.Uses)
	}
	if g.Scope.Session != "" {
		often += " in this session"
	}
	return often + " until " + g.Until.Local().Format("Mon 15:04:05")
}

// active reports whether the Grant is valid at now. A changed clock cannot extend it.
func (g *Grant) active(now time.Time) bool {
	return !now.Before(g.Since) && now.Before(g.Until) && g.Until.Sub(g.Since) <= Max && g.Uses >= 0
}

// covers reports whether a hook's answer to an event of a session has no effect under the policies
// with a digest.
func (g *Grant) covers(session, policy, hook string) bool {
	return (g.Scope.Session == "" || g.Scope.Session == session) && (g.Policy == "" || g.Policy == policy) && slices.Contains(g.Hooks, hook)
}

// A Store is the directory of the Grants of one user. It has a file per call, so a new Grant
// replaces an older one for the same call, and a file per use.
type Store string

const (
	maxGrant = 64 << 10 // bytes
	suffix   = ".json"
	used     = ".used"
	revoked  = ".revoked"
)

func (s Store) file(call string) string { return filepath.Join(string(s), call+suffix) }

func (s Store) useFile(id string, n int) string {
	return filepath.Join(string(s), fmt.Sprintf("%s%s%d", id, used, n))
}

// Find returns the Grant of a call if it is active and not used up. A missing, invalid or
// unreadable file means no Grant. A Grant that has ended, or has not begun, is removed, so that a
// clock change cannot reactivate it. A Grant that is used up is still there for the event that has a
// use of it; event is its ID, or empty.
func (s Store) Find(call, event string, now time.Time) (*Grant, bool) {
	g := s.read(call, now)
	return g, g != nil && (s.usedBy(g, event) || !s.spent(g))
}

// read returns the Grant of a call, or nil if it is not active.
func (s Store) read(call string, now time.Time) *Grant {
	if !files.IsDigest(call) {
		return nil
	}
	data, err := files.Read(s.file(call), maxGrant)
	if err != nil {
		return nil
	}
	g := &Grant{}
	if json.Unmarshal(data, g) != nil || g.Digest != call || !g.active(now) {
		_ = os.Remove(s.file(call)) // ignore the error: the remaining file is not active
		return nil
	}
	return g
}

func (s Store) revokedFile(id string) string { return filepath.Join(string(s), id+revoked) }

// spent reports whether all uses of a Grant are used, or it was revoked.
func (s Store) spent(g *Grant) bool {
	return files.Exists(s.revokedFile(g.ID)) || g.Uses > 0 && files.Exists(s.useFile(g.ID, g.Uses-1))
}

// Unused reports whether a Grant can be used: it was not revoked, and has a use left.
func (s Store) Unused(g *Grant) bool { return !s.spent(g) }

// Use uses a Grant once, for an event with this ID, and reports whether it could. Only one of several
// processes gets each use: to create a file that must not exist is atomic. The files remain until no
// process can still have an old copy of the Grant.
func (s Store) Use(g *Grant, event string) bool {
	for n := range g.Uses {
		f, err := os.OpenFile(s.useFile(g.ID, n), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(event)
			return errors.Join(err, f.Close()) == nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return false
		}
	}
	return g.Uses == 0 && !s.spent(g)
}

// usedBy reports whether an event has one of the uses of a Grant. An empty ID has none.
func (s Store) usedBy(g *Grant, event string) bool {
	if event == "" {
		return false
	}
	for n := range g.Uses {
		if id, err := files.Read(s.useFile(g.ID, n), maxGrant); err == nil && string(id) == event {
			return true
		}
	}
	return false
}

// Add stores a Grant. It replaces a Grant for the same call.
func (s Store) Add(g *Grant) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	s.prune(g.Since)
	return files.Write(s.file(g.Digest), append(data, '\n'), 0o600)
}

// List returns the Grants that are active and not used up, the oldest first.
func (s Store) List(now time.Time) ([]Grant, error) {
	grants, err := s.Valid(now)
	return slices.DeleteFunc(grants, func(g Grant) bool { return s.spent(&g) }), err
}

// Valid returns the Grants that are active, also those that are used up, the oldest first.
func (s Store) Valid(now time.Time) ([]Grant, error) {
	names, err := s.names()
	var grants []Grant
	for _, name := range names {
		if g := s.read(strings.TrimSuffix(name, suffix), now); g != nil {
			grants = append(grants, *g)
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID)) })
	return grants, err
}

// Revoke ends a Grant. No event uses it afterwards, also if the Grant is part of an answer to a
// [Request].
func (s Store) Revoke(g *Grant) error {
	if err := files.Write(s.revokedFile(g.ID), nil, 0o600); err != nil {
		return err
	}
	for range g.Uses {
		s.Use(g, "") // a program that has not seen the file yet cannot take the use
	}
	if err := os.Remove(s.file(g.Digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// names lists the files of the Store.
func (s Store) names() ([]string, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// pruneAfter is long after the end of each Grant, so that no process still uses a copy of it.
const pruneAfter = Max + 2*time.Hour

// prune removes the files of Grants that ended long ago.
func (s Store) prune(now time.Time) {
	names, _ := s.names() // otherwise they remain
	for _, name := range names {
		if name == keyName {
			continue
		}
		name = filepath.Join(string(s), name)
		if info, err := os.Lstat(name); err == nil && now.Sub(info.ModTime()) > pruneAfter {
			_ = os.Remove(name)
		}
	}
}
