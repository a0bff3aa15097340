package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// DurationVar defines a flag for a duration that may have days and weeks: 30s, 1h, 7d, 2w.
func DurationVar(flags *pflag.FlagSet, d *time.Duration, name string, without time.Duration, usage string) {
	*d = without
	flags.Var((*duration)(d), name, usage)
}

// duration is the value of a flag.
type duration time.Duration

// String returns 0 for no duration, which the help then does not show as a default.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return policyfile.FormatDuration(time.Duration(*d))
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(text string) error {
	parsed, err := policyfile.ParseDuration(text)
	*d = duration(parsed)
	return err
}
