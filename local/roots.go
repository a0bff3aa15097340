package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// Each session has a file with its root, sessions/XX/REST, where XXREST is the digest of the
// agent's name and the session's ID. The digest ensures that an ID cannot be used as a path and
// cannot name the file of another session. The content and the name never change. The
// modification time records the last use of the root.
//
// A root that was used within rootIdle is never removed: invented session IDs must not remove the
// guards of a running session. Instead, the store refuses new roots when it is full. Each of the
// 256 directories has a limit, so a new session checks only a few files.
const (
	rootIdle    = 7 * 24 * time.Hour // minimum time that a root is kept after its last use
	rootRefresh = time.Hour          // maximum lag of the modification time behind the last use
	rootsPerDir = 64                 // 16,384 roots in total
)

// sessionRoot returns the root of the event's session. If the root could not be stored, it also
// returns an error; the root is then the root of cwd, unless the daemon's cache has the session's
// root.
func (p Place) sessionRoot(ev *grapnel.Event, cwd string, keep bool) (root, error) {
	if ev.Session.ID == "" {
		return rootOf(cwd), nil
	}
	id := sessionKey(ev.Agent.Name, ev.Session.ID)
	name := filepath.Join(p.sessions(), id[:2], id[2:])
	now := time.Now()
	kept, used, ok := p.Roots.load(name)
	if !ok {
		kept, used, ok = readRoot(name)
	}
	switch {
	case !ok && (!keep || cwd == ""):
		return rootOf(cwd), nil
	case !ok:
		kept = rootOf(cwd)
	case !keep || recent(used, now):
		p.Roots.store(name, kept, used)
		return kept, nil
	case !errors.Is(os.Chtimes(name, now, now), fs.ErrNotExist): // a read-only state directory keeps its roots, too
		p.Roots.store(name, kept, now)
		return kept, nil
	default: // the daemon's cache has a root, but its file was removed
	}
	stored, err := p.keepRoot(name, kept, now)
	if err != nil {
		files.Refuse(p.refusals(), now)
		if errors.Is(err, files.ErrFull) {
			err = fmt.Errorf("too many sessions were active in the last %d days", rootIdle/(24*time.Hour))
		}
		return kept, fmt.Errorf("cannot store the root of this session, so a project's policy applies only while the agent is in the project's directory: %w", err)
	}
	p.Roots.store(name, stored, now)
	return stored, nil
}

// recent reports whether a modification time does not need an update yet. A time in the future
// comes from a clock that was set back.
func recent(used, now time.Time) bool { return now.Sub(used).Abs() < rootRefresh }

func readRoot(name string) (kept root, used time.Time, ok bool) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return root{}, used, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return root{}, used, false
	}
	data := make([]byte, 2*MaxPath+2)
	n, _ := f.Read(data) // the file was written in one piece
	called, real, _ := strings.Cut(string(data[:n]), "\x00")
	return root{called, real}, info.ModTime(), filepath.IsAbs(called) && filepath.IsAbs(real)
}

// keepRoot stores a root and returns the stored root. If another event of the session stored a
// root at the same time, it returns that root.
func (p Place) keepRoot(name string, found root, now time.Time) (root, error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return found, err
	}
	if err := makeRoom(dir, now); err != nil {
		return found, err
	}
	f, err := os.CreateTemp(dir, files.Temporary+"*") // mode 0600
	if err != nil {
		return found, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(found.called + "\x00" + found.real)
	if err := errors.Join(err, f.Close()); err != nil {
		return found, err
	}
	err = os.Link(f.Name(), name) // unlike a rename, a link does not replace an existing file
	if err == nil {
		return found, nil
	}
	if first, _, ok := readRoot(name); ok {
		return first, nil
	}
	return found, os.Rename(f.Name(), name) // the file system has no links, or the file contains no valid root
}

// makeRoom removes unused roots of a directory; see [files.MakeRoom].
func makeRoom(dir string, now time.Time) error {
	return files.MakeRoom(dir, rootsPerDir, func(name string, info fs.FileInfo) bool {
		limit := rootIdle + rootRefresh
		if strings.HasPrefix(info.Name(), files.Temporary) {
			limit = rootRefresh // the writing process was killed
		}
		switch idle := now.Sub(info.ModTime()); {
		case idle > limit:
			_ = os.Remove(name)
			return true
		case idle < -rootRefresh: // the clock was set back: without a reset the file would stay until that time
			_ = os.Chtimes(name, now, now)
		}
		return false
	})
}

// refusals returns the path of the file that counts refused roots.
func (p Place) refusals() string { return filepath.Join(p.sessions(), "refused") }

// RootsRefused returns the number of events in the last seven days whose session root could not
// be stored, and the time of the last one. The project policies of such a session no longer apply
// when its agent leaves the directory.
func (p Place) RootsRefused(now time.Time) (events int, last time.Time) {
	return files.Refusals(p.refusals(), now)
}

// sessionKey returns the digest of an agent's name and the ID of a session.
func sessionKey(agent, session string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + session))
	return hex.EncodeToString(sum[:16])
}

// Roots caches the roots of sessions by the names of their files. The root of a session never
// changes. Roots is safe for concurrent use. A nil cache is always empty.
type Roots struct {
	mu    sync.RWMutex
	known map[string]usedRoot
}

type usedRoot struct {
	root
	used time.Time // modification time of the file
}

// maxRoots is the maximum number of cached roots. If it is reached, the cache is cleared.
const maxRoots = 4096

func (r *Roots) load(name string) (kept root, used time.Time, ok bool) {
	if r == nil {
		return root{}, used, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	known, ok := r.known[name]
	return known.root, known.used, ok
}

func (r *Roots) store(name string, kept root, used time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRoots {
		r.known = map[string]usedRoot{}
	}
	r.known[name] = usedRoot{kept, used}
}
