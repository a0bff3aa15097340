//go:build unix

package spool

import (
	"context"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// fill stores Records until a file reaches the size limit, as on a full disk. It fails unless
// the Spool reports an error.
func fill(dir string, limit int) error {
	s, err := Open(dir, nil)
	if err != nil {
		return err
	}
	small := unix.Rlimit{Cur: uint64(limit), Max: math.MaxInt64}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	kept := 0
	for s.Err() == nil {
		s.Observe(context.Background(), record(fmt.Sprintf("fill-%d", kept)))
		kept++
	}
	fmt.Fprint(os.Stdout, kept-1, " ", s.Err())
	return nil
}

// countFull counts while files cannot grow. It fails unless that is an error.
func countFull(dir string) error {
	s, err := Open(dir, nil)
	if err != nil {
		return err
	}
	small := unix.Rlimit{Cur: 0, Max: math.MaxInt64}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	if n, err := s.up("k"); err == nil {
		return fmt.Errorf("counted to %d on a full disk", n)
	}
	return nil
}
