package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// ErrFailed ends a command with exit code 1. The command has already printed the reason.
var ErrFailed = errors.New("failed")

// usageError ends a command with exit code 64.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a wrong command line.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error is about the command line.
func IsUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}

// hintError is an error with a hint.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

// WithHint adds a hint to an error: the next step for the user.
func WithHint(err error, hint string) error { return hintError{err, hint} }

// HintOf returns the hint of an error, or "".
func HintOf(err error) string {
	hint, _ := errors.AsType[hintError](err)
	return hint.hint
}

// WithNear adds a hint with the most similar known word, or else another hint.
func WithNear(err error, word string, known []string, other string) error {
	if near := Nearest(word, known); len(near) > 0 {
		return WithHint(err, fmt.Sprintf("did you mean %q?", near[0]))
	}
	return WithHint(err, other)
}

// UnknownAgent returns the error for an agent that Grapnel does not know.
func UnknownAgent(name string) error {
	known := dialect.Names()
	return Usage(WithNear(fmt.Errorf("unknown agent %q", name), name, known, "known agents: "+strings.Join(known, ", ")))
}

// Nearest lists at most three known names that are similar to a mistyped one.
func Nearest(name string, known []string) (near []string) {
	known = slices.Clone(known)
	for len(near) < 3 {
		best := wording.NearestWord(name, known)
		if best == "" {
			break
		}
		near = append(near, best)
		known = slices.DeleteFunc(known, func(k string) bool { return k == best })
	}
	if len(near) > 0 {
		return near
	}
	for _, k := range known {
		if len(name) > 2 && strings.Contains(k, name) && len(near) < 3 && !slices.Contains(near, k) {
			near = append(near, k)
		}
	}
	return near
}
