//go:build !linux && !darwin

package server

import (
	"errors"
	"net"
	"os"
	"time"
)

var errNoPeer = errors.New("this system does not say who is on the other side of a socket, so no daemon listens")

func peerOf(*net.UnixConn) (int, error) { return -1, errNoPeer }

func shortName(string) (name string, done func(), err error) { return "", nil, errNoPeer }

func pidOf(*net.UnixConn) (int, error) { return 0, errNoPeer }

func lockFor(string, time.Duration) (*os.File, error) { return nil, errNoPeer }

func private(string) error { return errNoPeer }
