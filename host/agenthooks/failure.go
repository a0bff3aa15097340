package agenthooks

import (
	"errors"
	"fmt"
)

// errLate is why a call that took too long is left behind.
var errLate = errors.New("took longer than its timeout")

// panicked is the error of a call that panicked.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// failureOf says what kind of failure it was, for records and for the model. What the
// error says may hold a part of the target, so only types are named.
func failureOf(err error) string {
	if errors.Is(err, errLate) {
		return errLate.Error()
	}
	if p, is := errors.AsType[*panicked](err); is {
		return fmt.Sprintf("panic: %T", p.value)
	}
	if u, is := errors.AsType[*unfit](err); is {
		return u.Error() // place and rule
	}
	return fmt.Sprintf("%T", err)
}
