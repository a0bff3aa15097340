package spool

import "errors"

func fill(string, int) error { return errors.New("Windows has no limit on the size of files") }

func countFull(string) error { return errors.ErrUnsupported }
