package policy

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/readfile"
)

// A pinned file is read before its program starts, and the program opens it by its name:
// what has that name may be swapped in between. Running a copy, or what is open here, would
// be safe and would break programs that look for what lies beside them. So the file is
// looked at once more when the program has ended. Who swaps it back by then is found too:
// the kernel notes the time of each rename and each write, and no user can set it. Whole
// directories that are swapped and put back are not found.

// look returns the file as it is while its content is what was trusted; nil where no file
// is to be.
func (p Pin) look() (fs.FileInfo, error) {
	if p.SHA256 == "" {
		if info, err := os.Stat(p.Path); err == nil && !info.IsDir() { // also one that can be run and not read
			return nil, fmt.Errorf("%s was not there when the policy was trusted", p.Path)
		}
		return nil, nil
	}
	var seen fs.FileInfo
	data, err := readfile.Checked(p.Path, maxPinned+1, func(info fs.FileInfo) error { seen = info; return nil })
	if err != nil {
		return nil, fmt.Errorf("%s was trusted, and now it %s", p.Path, unreadable(err))
	}
	if digest.Of(data) != p.SHA256 {
		return nil, fmt.Errorf("%s is not what was trusted", p.Path)
	}
	return seen, nil
}

func (p Pin) check() error {
	_, err := p.look()
	return err
}

// still says that a file is not the one that was seen.
func (p Pin) still(seen fs.FileInfo) error {
	now, err := os.Stat(p.Path)
	same := seen == nil && (err != nil || now.IsDir()) ||
		seen != nil && err == nil && os.SameFile(seen, now) && seen.Size() == now.Size() && lastChange(seen).Equal(lastChange(now))
	if same {
		return nil
	}
	return fmt.Errorf("%s was changed while it ran", p.Path)
}
