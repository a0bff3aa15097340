//go:build system

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/local"
)

// indexed makes the index of the log below a root, as a daemon does: index ROOT
func indexed() {
	err := func() error {
		place, err := local.Locate(os.Args[1], "")
		if err != nil {
			return err
		}
		x, err := records.Log(place).Keep(nil)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- x.Run(ctx) }()
		lag, err := x.Lag(ctx)
		for ; err == nil && !lag.Since.IsZero(); lag, err = x.Lag(ctx) {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		return errors.Join(err, <-ended, x.Close())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flip replaces bytes of a file: flip FILE FROM TO, with texts of the same length.
func flip() {
	err := func() error {
		data, err := os.ReadFile(os.Args[1])
		if err != nil {
			return err
		}
		from, to := os.Args[2], os.Args[3]
		n := 0
		for i := 0; i+len(from) <= len(data); i++ {
			if string(data[i:i+len(from)]) == from {
				n += copy(data[i:], to)
			}
		}
		if n == 0 || len(from) != len(to) {
			return errors.New(strconv.Itoa(n) + " bytes to change")
		}
		return os.WriteFile(os.Args[1], data, 0o600)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
