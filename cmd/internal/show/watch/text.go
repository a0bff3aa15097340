package watch

import (
	"cmp"
	"fmt"
	"time"
)

// age formats the time since an event, in four columns.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", min(999, d/(24*time.Hour)))
}

// within limits n to the range from least to most. If least is larger than most, it returns least.
func within[T cmp.Ordered](n, least, most T) T { return max(least, min(n, most)) }
