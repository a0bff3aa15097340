// Package nolint calls bad, which the check "calls" of the test reports.
package nolint

func bad() int { return 0 }

func lines() {
	bad() // want `a call \(calls\)`
	bad() //nolint:calls // the line
	//nolint:calls // the next line
	bad()
	bad() // want `a call \(calls\)`

	//nolint:calls // the statement that begins on the next line
	if bad() == 0 {
		bad()
	}
	bad() // want `a call \(calls\)`
}

//nolint:calls // the whole function
func function() {
	bad()
	bad()
}

func mistakes() {
	bad() //nolint:other // want `a call \(calls\)` `other finds nothing here: remove the comment`
	bad() //nolint:calls,mistyped // want `no check has the name "mistyped"`
	//nolint:calls // want `calls finds nothing here: remove the comment`
}
