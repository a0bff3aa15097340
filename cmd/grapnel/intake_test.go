//go:build system

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// intake is a daemon that only moves the spool below a root into the store, once: intake ROOT
func intake() {
	err := func() error {
		root, err := filepath.Abs(os.Args[1])
		if err != nil {
			return err
		}
		s, err := store.Open(filepath.Join(root, "state", "store"), nil)
		if err != nil {
			return err
		}
		in := &store.Intake{Spool: filepath.Join(root, "state", "spool"), Store: s}
		_, err = in.Once(context.Background())
		for end := time.Now().Add(await.Limit); errors.Is(err, spool.ErrBusy) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			_, err = in.Once(context.Background())
		}
		return errors.Join(err, s.Close())
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
