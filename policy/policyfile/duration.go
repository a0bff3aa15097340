package policyfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span that is written with a unit, such as 1m30s.
type Duration time.Duration

// String returns the duration as 1m30s. It shortens 1m0s to 1m.
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText writes the duration as 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration such as 1m30s or 7d.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// ParseDuration reads a duration such as 1m30s, 7d or 2w. It extends time.ParseDuration by
// days of 24 hours and weeks of 7 days, which come first: 1w2d12h.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(text, "+")
	}
	var days float64
	for _, unit := range []struct {
		name byte
		days float64
	}{{'w', 7}, {'d', 1}} {
		end := strings.IndexByte(rest, unit.name)
		if end < 0 {
			continue
		}
		number, err := strconv.ParseFloat(rest[:end], 64)
		if err != nil || strings.Trim(rest[:end], "0123456789.") != "" {
			return 0, fmt.Errorf("invalid duration %q", text)
		}
		days += number * unit.days
		rest = rest[end+1:]
	}
	const day = 24 * time.Hour
	if limit := float64(1<<63-1) / float64(day); days >= limit {
		return 0, fmt.Errorf("invalid duration %q: too long", text)
	}
	sum := time.Duration(days * float64(day))
	if rest != "" || days == 0 && !strings.ContainsAny(text, "dw") {
		// A second sign is an error: the rest of -1h is 1h, and the rest of 1d-1h is -1h.
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || rest[0] == '+' || sum+d < sum {
			return 0, fmt.Errorf("invalid duration %q", text)
		}
		sum += d
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

// FormatDuration formats a duration and shortens 1m0s to 1m.
func FormatDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
