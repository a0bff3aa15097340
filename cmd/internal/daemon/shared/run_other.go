//go:build !linux

package shared

import (
	"context"
	"errors"
	"log/slog"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

var errLinux = errors.New("only Linux can run a daemon for all users")

// Run returns an error.
func Run(context.Context, *slog.Logger, Options) error { return errLinux }

// Become returns an error.
func Become(string) (*server.Passed, error) { return nil, errLinux }
