package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// snapshots stores the valid content of policy files in compiled form. Each content is in a file
// named by its SHA-256. For each policy file, another file names the last valid content.
type snapshots struct{ dir string }

// snapshotFormat changes when the meaning of the stored data changes. codecLayout is the version of
// the stored types.
const snapshotFormat = "grapnel snapshot 8 "

// Prefix and suffix of file names in the snapshot directory.
const (
	snapshotEnd = ".snap"
	lastPrefix  = "last-"
)

// keepSnapshots is the number of stored contents.
const keepSnapshots = 32

// snapshot is the stored content of a policy or of a foreign hook file. It has no path, because files
// with the same content share it.
type snapshot struct {
	Policy  *policyfile.Policy
	Foreign *foreignSnapshot
}

func (snap *snapshot) encode() []byte {
	w := &compiledWriter{}
	w.text(snapshotFormat + codecLayout)
	f := snap.Foreign
	w.bool(f != nil)
	if f != nil {
		w.text(f.Policy)
		w.text(f.Name)
		w.text(string(f.Data))
	} else {
		w.policy(snap.Policy)
	}
	return w.b
}

// readSnapshotText decodes a snapshot; nil = another version wrote it. If facts is not nil, hooks
// that cannot match the event are skipped and counted.
func readSnapshotText(text string, facts *match.Facts) (snap *snapshot, skipped int) {
	r := &codecReader{left: text}
	if r.text() != snapshotFormat+codecLayout {
		return nil, 0
	}
	snap = &snapshot{}
	if r.bool() {
		snap.Foreign = &foreignSnapshot{Policy: r.text(), Name: r.text(), Data: []byte(r.text())}
	} else {
		p := r.compiledPolicy(facts)
		snap.Policy, skipped = p.Policy, p.skipped
	}
	if r.bad || r.left != "" {
		return nil, 0
	}
	return snap, skipped
}

func (s snapshots) lastFile(path string) string {
	return filepath.Join(s.dir, lastPrefix+files.Digest([]byte(path))[:16])
}

func (s snapshots) file(digest string) string { return filepath.Join(s.dir, digest+snapshotEnd) }

// last returns the digest of the last valid content of a file, or "".
func (s snapshots) last(path string) string {
	if s.dir == "" {
		return ""
	}
	data, err := files.Read(s.lastFile(path), 64<<10)
	last, _, _ := strings.Cut(string(data), "\n")
	if err != nil || !files.IsDigest(last) {
		return ""
	}
	return last
}

// read returns the policy with the given content digest, or nil if it is not stored. If facts is
// not nil, hooks that cannot match the event are skipped.
func (s snapshots) read(digest string, facts *match.Facts) *loadedPolicy {
	snap, skipped := s.readSnapshot(digest, facts)
	if snap == nil || snap.Policy == nil || snap.Policy.Version != 1 {
		return nil // no valid policy file has another version
	}
	return &loadedPolicy{Policy: snap.Policy, skipped: skipped}
}

func (s snapshots) readSnapshot(digest string, facts *match.Facts) (snap *snapshot, skipped int) {
	if s.dir == "" {
		return nil, 0
	}
	data, err := files.Read(s.file(digest), 64*yaml.MaxSize)
	if err != nil {
		return nil, 0
	}
	return readSnapshotText(string(checkChecksum(data)), facts)
}

// write stores the last valid content of a file. It ignores errors: without the snapshot, loading
// is slower and a later broken file has no fallback, but the current result is correct.
func (s snapshots) write(path, digest string, policy *policyfile.Policy) {
	if s.keep(digest, policy) {
		_ = files.Write(s.lastFile(path), []byte(digest+"\n"+path+"\n"), 0o600)
	}
	s.prune()
}

// keep stores a content, and reports success.
func (s snapshots) keep(digest string, policy *policyfile.Policy) bool {
	return s.keepAs(digest, snapshot{Policy: policy})
}

func (s snapshots) keepAs(digest string, snap snapshot) bool {
	if s.dir == "" {
		return false
	}
	if os.MkdirAll(s.dir, 0o700) != nil {
		return false
	}
	return files.Write(s.file(digest), addChecksum(snap.encode()), 0o600) == nil
}

// prune deletes the oldest contents, and files of writers that were killed. It keeps the last content
// of each file; otherwise an attacker could remove it by adding many others.
func (s snapshots) prune() {
	dir, err := os.Open(s.dir)
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	last := map[string]bool{} // set of digests
	var byAge []string
	for _, name := range names {
		file := filepath.Join(s.dir, name)
		switch {
		case strings.HasPrefix(name, files.Temporary):
			files.RemoveLeftover(file, time.Now())
		case strings.HasPrefix(name, lastPrefix):
			sum, _ := files.Read(file, files.DigestLen)
			last[string(sum)] = true
		case strings.HasPrefix(name, keptPrefix):
			k, _ := readEntry(file)
			for _, f := range k.Files {
				last[s.foreignDigest(k.Format+":"+f.Path, f.SHA256)] = true
			}
		case strings.HasSuffix(name, snapshotEnd):
			age := int64(0)
			if info, err := os.Stat(file); err == nil {
				age = info.ModTime().UnixNano()
			}
			byAge = append(byAge, fmt.Sprintf("%020d %s", age, name))
		}
	}
	slices.Sort(byAge)
	surplus := len(byAge) - keepSnapshots
	for _, line := range byAge {
		if name := line[21:]; surplus > 0 && !last[strings.TrimSuffix(name, snapshotEnd)] {
			_ = os.Remove(filepath.Join(s.dir, name))
			surplus--
		}
	}
}

// Forget removes the reference to the last valid content of a file, and reports whether one
// existed.
func Forget(dir, path string) (bool, error) {
	s := snapshots{dir: dir}
	if s.last(path) == "" {
		return s.forgetForeign(path)
	}
	if err := os.Remove(s.lastFile(path)); err != nil {
		return false, fmt.Errorf("cannot delete %s: %w", path, err)
	}
	return true, nil
}
