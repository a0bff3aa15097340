//go:build !linux && !darwin

package server

import (
	"errors"
	"net"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

var errNoPeer = errors.New("this system does not report the user at the other end of a socket, so the daemon cannot run")

func peerOf(*net.UnixConn) (int, error) { return -1, errNoPeer }

func shortName(string) (name string, done func(), err error) { return "", nil, errNoPeer }

func pidOf(*net.UnixConn) (int, error) { return 0, errNoPeer }

func lockFor(string, time.Duration) (*files.Lock, error) { return nil, errNoPeer }

func private(string) error { return errNoPeer }
