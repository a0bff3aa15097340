package agenthooks

import (
	"errors"
	"fmt"
)

// errLate is the error of an abandoned call.
var errLate = errors.New("took longer than its timeout")

// panicked is the error of a call that panicked.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// failureOf describes a failure for records and for the model. The text of an unknown error may
// contain a part of the target, so failureOf names only its type.
func failureOf(err error) string {
	if errors.Is(err, errLate) {
		return errLate.Error()
	}
	if p, is := errors.AsType[*panicked](err); is {
		return fmt.Sprintf("panic: %T", p.value)
	}
	if u, is := errors.AsType[*unfit](err); is {
		return u.Error() // contains only the place and the rule
	}
	return fmt.Sprintf("%T", err)
}
