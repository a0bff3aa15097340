package load

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// TOCTOU check: a pinned file is read before its program starts, and the program then opens the
// file by name. An attacker could swap the file in between. Running a copy or an open file
// descriptor would be safe, but would break programs that look for files next to their own. So the
// file is checked again after the program has ended. A file that was swapped back is detected too:
// the kernel stores the time of each rename and write in the ctime, which users cannot set. A swap
// of whole directories that are then restored is not detected.

// look returns the file info if the content is the trusted content. It returns nil if the pin
// requires that the file does not exist.
func (p Pin) look() (fs.FileInfo, error) {
	if p.SHA256 == "" {
		if info, err := os.Stat(p.Path); err == nil && !info.IsDir() { // an executable file that is not readable also counts
			return nil, fmt.Errorf("%s did not exist when the policy was trusted", p.Path)
		}
		return nil, nil
	}
	var seen fs.FileInfo
	data, err := files.ReadChecked(p.Path, maxPinned+1, func(info fs.FileInfo) error { seen = info; return nil })
	if err != nil {
		return nil, fmt.Errorf("%s was trusted, but now it %s", p.Path, unreadable(err))
	}
	if files.Digest(data) != p.SHA256 {
		return nil, fmt.Errorf("%s differs from the trusted content", p.Path)
	}
	return seen, nil
}

func (p Pin) check() error {
	_, err := p.look()
	return err
}

// still returns an error if the file is not the file that look returned.
func (p Pin) still(seen fs.FileInfo) error {
	now, err := os.Stat(p.Path)
	same := seen == nil && (err != nil || now.IsDir()) ||
		seen != nil && err == nil && os.SameFile(seen, now) && seen.Size() == now.Size() && files.Changed(seen).Equal(files.Changed(now))
	if same {
		return nil
	}
	return fmt.Errorf("%s was changed while it ran", p.Path)
}
