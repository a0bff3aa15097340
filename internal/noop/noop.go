// Package noop has a hook without an opinion, in place of a hook that is described but not run.
package noop

import (
	"context"

	"github.com/grapnel-dev/grapnel"
)

// Hook has no opinion.
type Hook struct{}

// Handle returns the zero Outcome.
func (Hook) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}
