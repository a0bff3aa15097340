package records

import (
	"errors"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/local"
)

// Limits returns the limits of retention that the policies of a place set. It returns an error if
// one of these policies cannot be read.
func Limits(place local.Place) (journal.Limits, error) {
	set := place.Settings()
	if set.Records.Unknown {
		return journal.DefaultLimits, errors.New("the limits of retention are unknown, because a policy cannot be read")
	}
	return late.LimitsOf(&set), nil
}
