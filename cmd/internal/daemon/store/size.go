package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Size is the amount of data in a store.
type Size struct {
	Records int64
	Bytes   int64 // on disk, including the write-ahead log
}

// Size returns the number of Records and their size on disk.
func (r *Reader) Size(ctx context.Context) (Size, error) {
	var s Size
	err := r.read(ctx, func(v *view) error {
		_, err := v.row("SELECT count(*) FROM record", nil, &s.Records)
		return err
	})
	for _, name := range []string{filepath.Join(r.dir, baseFile), filepath.Join(r.dir, baseFile+"-wal")} {
		info, failed := os.Stat(name)
		if failed == nil {
			s.Bytes += info.Size()
		} else if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return Size{}, fmt.Errorf("cannot read the size of the store: %w", err)
	}
	return s, nil
}
