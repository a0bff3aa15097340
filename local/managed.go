package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// maxGroups is the size limit of the file of groups in bytes.
const maxGroups = 64 << 10

// ReadManaged reads the first limit bytes of a file in the directory of the managed policies. It
// returns an error if users other than root can change the file, or a directory or link on its
// path. Below a --root, it does not check the owner.
func (p Place) ReadManaged(name string, limit int64) ([]byte, error) {
	check := func(fs.FileInfo) error { return nil }
	if !p.Standing {
		if err := files.OnlyRootPath(name); err != nil {
			return nil, err
		}
		check = files.OnlyRoot
	}
	return files.ReadChecked(name, limit, check)
}

// GroupsFile returns the path of the file that lists the groups of this machine, one per line.
func (p Place) GroupsFile() string { return filepath.Join(p.Managed, "groups") }

// groups returns the groups of this machine. A machine without the file is in no group.
func (p Place) groups() ([]string, error) {
	if p.Managed == "" {
		return nil, nil
	}
	data, err := p.ReadManaged(p.GroupsFile(), maxGroups)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", p.GroupsFile(), files.Reason(err))
	}
	var groups []string
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name != "" {
			groups = append(groups, name)
		}
	}
	return groups, nil
}
