package files

import (
	"io/fs"
	"os"
	"time"
)

// A Stamped is a file or a directory, which may be missing. With Root, only root may be able to change
// it.
type Stamped struct {
	Path string
	Root bool
}

// Stamps identify the contents of files by their metadata.
type Stamps []stamp

type stamp struct {
	Stamped
	info fs.FileInfo // nil = the file did not exist
}

// StampsOf returns the stamps of files. Call it before you read the files, so that later changes are
// noticed.
func StampsOf(list ...Stamped) Stamps {
	stamps := make(Stamps, len(list))
	for i, f := range list {
		stamps[i].Stamped = f
		stamps[i].info, _ = os.Stat(f.Path)
	}
	return stamps
}

// fresh is the time after a file change in which another change may not be visible in the stamp:
// file systems have coarse clocks.
const fresh = 50 * time.Millisecond

// Current reports whether no file has changed since the files were read.
func (stamps Stamps) Current(read time.Time) bool {
	for i := range stamps {
		s := &stamps[i]
		info, err := os.Stat(s.Path)
		switch {
		case err != nil && s.info == nil:
			continue
		case err != nil || s.info == nil || !same(info, s.info), Changed(info).Add(fresh).After(read):
			return false
		case s.Root && OnlyRootPath(s.Path) != nil:
			return false
		}
	}
	return true
}

// same reports whether two stats describe an unchanged file.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime()) && Changed(a).Equal(Changed(b))
}
