package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Corruption is a file in the state directory that was edited or damaged.
type Corruption struct {
	File string
	What string // the problem
	Why  string // the consequence
	Hint string // how to fix it
}

// CheckIntegrity compares snapshots and trusted copies with their source files. It parses each file
// again, so it is too slow for program start. It skips a snapshot if the content of its file is
// gone.
func CheckIntegrity(snapshotDir string, trusts Trusts) []Corruption {
	var found []Corruption
	s := snapshots{dir: snapshotDir}
	lasts, _ := filepath.Glob(filepath.Join(snapshotDir, lastPrefix+"*"))
	for _, last := range lasts {
		data, err := files.Read(last, 64<<10)
		sum, path, _ := strings.Cut(strings.TrimSuffix(string(data), "\n"), "\n")
		if err != nil || !files.IsDigest(sum) {
			found = append(found, Corruption{last, "the last valid content of a policy is unknown: " + last + " is damaged", "if that policy breaks, tools are blocked", "rm " + last})
			continue
		}
		if content, err := files.Read(path, yaml.MaxSize+1); err == nil && files.Digest(content) == sum {
			found = append(found, s.damaged(path, sum, content)...)
		}
	}
	var kept []string
	if trusts != "" {
		kept, _ = filepath.Glob(filepath.Join(string(trusts), "*.json"))
	}
	for _, name := range kept {
		var t Trust
		data, err := files.Read(name, yaml.MaxSize)
		if err == nil {
			err = json.Unmarshal(data, &t)
		}
		if err == nil && trusts.name(t.File) != name {
			err = fmt.Errorf("it names the file %q", t.File)
		}
		if err == nil && !files.IsDigest(t.SHA256) {
			err = fmt.Errorf("%q is not a digest", t.SHA256)
		}
		if err != nil {
			found = append(found, Corruption{name, fmt.Sprintf("cannot read the trust file of a project: %s: %v", name, err), "its tools are blocked", "grapnel trust FILE, for the project's policy"})
			continue
		}
		content, err := trusts.Content(t.SHA256)
		if err != nil {
			found = append(found, Corruption{filepath.Join(string(trusts), t.SHA256), fmt.Sprintf("%s: %v", t.File, err), "Grapnel cannot restore the trusted content or compare the file with it", "grapnel trust " + t.File})
			continue
		}
		found = append(found, s.damaged(t.File, t.SHA256, content)...)
	}
	slices.SortFunc(found, func(a, b Corruption) int { return strings.Compare(a.File, b.File) })
	return slices.CompactFunc(found, func(a, b Corruption) bool { return a == b })
}

// damaged returns how a snapshot differs from the policy that its content gives.
func (s snapshots) damaged(path, sum string, content []byte) []Corruption {
	name := s.file(sum)
	data, err := files.Read(name, 64*yaml.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Grapnel writes it again
	}
	policy, errs := policy.Parse(path, content)
	if len(errs) > 0 {
		return nil // another version could read it; load reports the errors
	}
	var kept *loadedPolicy
	if err == nil {
		kept = s.read(sum, nil)
	}
	hint := "rm " + name
	switch {
	case err == nil && checkChecksum(data) != nil && kept == nil:
		return nil // written by another version
	case kept == nil:
		return []Corruption{{name, fmt.Sprintf("the snapshot of %s is damaged", path), "Grapnel ignores it and parses the file at each start", hint}}
	case !sameJSON(kept.Policy, policy), !bytes.Equal((&snapshot{Policy: kept.Policy}).encode(), checkChecksum(data)):
		return []Corruption{{name, fmt.Sprintf("the snapshot of %s differs from the file", path), "the snapshot is enforced, but its content was changed", hint}}
	}
	return nil
}

// sameJSON reports whether two policies have the same JSON form.
func sameJSON(a, b *policyfile.Policy) bool {
	first, _ := rawjson.Marshal(a)
	second, _ := rawjson.Marshal(b)
	return bytes.Equal(first, second)
}
