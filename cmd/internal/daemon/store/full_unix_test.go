//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// playFull stores records until a file size limit is reached, raises the limit, and continues.
func playFull(dir, _ string) error {
	s, err := Open(dir, nil)
	if err != nil {
		return err
	}
	put := func(i int) error {
		return s.Put(context.Background(), Item{Line: lineOf(entry(fmt.Sprint(i)))})
	}
	kept := 0
	for size := uint64(300_000); size < 3_000_000; size += 900_000 {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: math.MaxInt64}); err != nil {
			return err
		}
		for err = nil; err == nil; kept++ {
			err = put(kept)
		}
		kept--
		kept--
		for range 20 {
			if err := put(kept); err == nil {
				kept++ // a later record may be smaller
			}
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: math.MaxInt64, Max: math.MaxInt64}); err != nil {
		return err
	}
	for range 100 {
		if err := put(kept); err != nil {
			return fmt.Errorf("there is room again: %w", err)
		}
		kept++
	}
	report, err := s.Verify(context.Background())
	if err == nil && (!report.OK() || report.Rows != kept || kept < 130) {
		err = fmt.Errorf("verify = %+v, want %d rows", report, kept)
	}
	return errors.Join(err, s.Close())
}
